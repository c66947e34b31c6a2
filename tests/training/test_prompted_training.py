"""A training with a prompt: what is encoded is what is in use, and the folder carries the prompts as they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.objectives.anchored import Anchored
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train


def config(model: Path, corpus: Path, output: Path, method: str = "anchored", **changes: Any) -> TrainConfig:
    given: dict[str, Any] = {
        "max_steps": 3,
        "batch_size": 16,
        "selection": "last",
        "report_sts": False,
        "precision": "fp32",
        **changes,
    }
    return TrainConfig(method, model=str(model), corpus=str(corpus), output=output, **given)


@pytest.mark.parametrize("include", [True, False])
def test_sentences_are_encoded_with_the_prompt(
    include: bool, prompted: Callable[..., Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, seen = prompted(include=include), []

    def spy(self: Anchored, encoder: Encoder, sentences: Mapping[str, Any], anchors: torch.Tensor) -> Any:
        seen.append((dict(sentences), anchors))
        return inner(self, encoder, sentences, anchors)

    inner = Anchored.changed
    monkeypatch.setattr(Anchored, "changed", spy)
    result = train(config(folder, corpus, tmp_path / "out", prompt_name="query"))
    assert len(seen) == 3
    plain = SentenceTransformer(str(folder), device="cpu")
    for sentences, anchors in seen:
        rows = [
            ids[mask.bool()].tolist()
            for ids, mask in zip(sentences["input_ids"], sentences["attention_mask"], strict=True)
        ]
        assert all(plain.tokenizer.decode(row[:3]) == "[CLS] the old" for row in rows)
        texts = [plain.tokenizer.decode(row[3:-1]) for row in rows]
        np.testing.assert_allclose(anchors, plain.encode(texts, prompt_name="query"), atol=1e-5)
    assert result["protocol"]["prompt"] == "the old "
    assert result["protocol"]["max_seq_length"] == 32 + 2  # the prompt does not shorten the sentence
    for name in ("config_sentence_transformers.json", "modules.json", "1_Pooling/config.json"):
        assert json.loads((tmp_path / "out" / name).read_text()) == json.loads((folder / name).read_text()), name
    assert "| prompt before every sentence | `the old ` |" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("method", ["anchored", "adcse", "l2p-csr"])
def test_a_resumed_run_is_an_unbroken_one(
    method: str, prompted: Callable[..., Path], corpus: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {
        "method": method,
        "prompt": "a big ",
        "max_steps": 4,
        "save_steps": 2,
        "keep_checkpoints": 9,
    }
    given |= {"options": {"layers": 2}} if method == "l2p-csr" else {}
    whole, again = tmp_path / "whole", tmp_path / "again"
    train(config(prompted("query", include=False), corpus, whole, **given))
    again.mkdir()
    shutil.copy(whole / "run.json", again)
    shutil.copytree(whole / "checkpoint-2", again / "checkpoint-2")
    with pytest.raises(UserError, match="prompt was 'a big ' and is now"):
        train(config(prompted("query", include=False), corpus, again, **{**given, "prompt": "a red "}), resume=True)
    train(config(prompted("query", include=False), corpus, again, **given), resume=True)
    assert sha256(again / "model.safetensors") == sha256(whole / "model.safetensors")
    other = train(config(prompted("query", include=False), corpus, tmp_path / "other", **{**given, "prompt": "a red "}))
    assert other["protocol"]["prompt"] == "a red "
    assert sha256(tmp_path / "other" / "model.safetensors") != sha256(whole / "model.safetensors")


def test_no_choice_leaves_nothing(prompted: Callable[..., Path], corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has prompts and no default: query 'the old ', passage 'under '"):
        train(config(prompted(), corpus, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    result = train(config(prompted(), corpus, tmp_path / "out", no_prompt=True, max_steps=1))
    assert result["protocol"]["prompt"] is None
