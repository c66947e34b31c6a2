"""A small encoder in use, and corpora large enough to hold texts out of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from made_up import made_up_texts

from holdfast.models import load_sentence_transformer


@pytest.fixture(scope="session")
def old_encoder(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    """An encoder in use."""
    folder = tmp_path_factory.mktemp("goal")
    model = load_sentence_transformer(str(make_masked_lm(folder / "lm")), pooling="mean")
    with torch.no_grad():  # almost a bag of words, so that a part of a text finds it
        for name, parameter in model.named_parameters():
            parameter *= 0.1 if "position" in name or "output.dense" in name else 1.0
    model.save_pretrained(str(folder / "old"))
    return folder / "old"


@pytest.fixture
def here(tmp_path: Path, old_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an encoder and 2,000 texts and 600 queries."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.attacks.resources._wordnet_places", lambda data: iter(()))
    (tmp_path / "old").symlink_to(old_encoder)
    (tmp_path / "mine.txt").write_text("\n".join(made_up_texts(2000, 9, 0)) + "\n", encoding="utf-8")
    (tmp_path / "asked.txt").write_text("\n".join(made_up_texts(600, 5, 1)) + "\n", encoding="utf-8")
    return tmp_path
