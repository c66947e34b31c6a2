"""A hardening with a prompt: training and audits use it, and the folder carries the prompts as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.goal.old_index import OldIndex
from holdfast.results import read_result
from holdfast.text_prompts import prompt_of

WORDS = "man woman child dog cat runs sleeps eats plays sings park house bed red big".split()


def test_training_and_audits_use_the_prompt(
    prompted: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    texts = [f"The {a} {b} in the {c}" for a in WORDS[:5] for b in WORDS[5:10] for c in WORDS[10:13]]
    (tmp_path / "mine.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    model = prompted(include=False)
    settings = HardenSettings(
        str(model),
        corpus="mine.txt",
        texts="mine.txt",
        output=Path("new"),
        batch_size=8,
        max_steps=2,
        examples=3,
        synonyms="none",
        query_prompt_name="query",
        document_prompt_name="passage",
    )
    of_documents: list[str | None] = []
    encoded = OldIndex.of

    def index_of(original: SentenceTransformer, *args: Any, **more: Any) -> OldIndex:
        of_documents.append(prompt_of(original, "document"))
        return encoded(original, *args, **more)

    monkeypatch.setattr(OldIndex, "of", index_of)
    result = harden(settings)
    assert of_documents == ["under "], "an index of documents has the prompt of documents"
    assert json.loads((tmp_path / "new" / "run.json").read_text())["prompts_of_documents"] == {
        "document_prompt_name": "passage"
    }
    assert result["protocol"]["prompt"] == "the old "
    for name in ("audit-before.json", "audit-after.json"):
        protocol = read_result(tmp_path / "new" / name)["protocol"]
        assert (protocol["prompt"], protocol["document_prompt"]) == ("the old ", "under ")
    for name in ("config_sentence_transformers.json", "modules.json", "1_Pooling/config.json"):
        assert json.loads((tmp_path / "new" / name).read_text()) == json.loads((model / name).read_text()), name
