"""A hardening with a prompt: training and audits use it, and the folder carries the prompts as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.goal.mixed_texts import MixedTexts
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result
from holdfast.text_prompts import PromptOptions, RolePromptOptions, prompt_of

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
    result = harden(settings)
    assert json.loads((tmp_path / "new" / "run.json").read_text())["prompts_of_documents"] == {
        "document_prompt_name": "passage"
    }
    assert result["protocol"]["prompt"] == "the old "
    for name in ("audit-before.json", "audit-after.json"):
        protocol = read_result(tmp_path / "new" / name)["protocol"]
        assert (protocol["prompt"], protocol["document_prompt"]) == ("the old ", "under ")
    for name in ("config_sentence_transformers.json", "modules.json", "1_Pooling/config.json"):
        assert json.loads((tmp_path / "new" / name).read_text()) == json.loads((model / name).read_text()), name


def test_documents_of_the_old_index_have_their_prompt(prompted: Callable[..., Path]) -> None:
    sides = RolePromptOptions(query_prompt_name="query", document_prompt_name="passage")
    spec = str(prompted())
    model = load_sentence_transformer(spec, device="cpu", prompts=PromptOptions(**sides.without_sides()))
    before = prompt_of(model)
    MixedTexts("mine.txt", prompts=sides).prepare_model(model, None)  # type: ignore[arg-type]  # nothing is read of it
    found = [prompt_of(model, role) for role in (None, "query", "document")]
    assert found == [before, "the old ", "under "]
