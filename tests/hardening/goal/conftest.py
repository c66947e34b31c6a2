"""A small encoder in use, and corpora large enough to hold texts out of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.models import load_sentence_transformer

WORDS = "man woman child dog cat runs sleeps eats plays sings park house bed red big old".split()


def made_up_texts(count: int, words: int, seed: int) -> list[str]:
    """Different texts of so many words."""
    draw, texts = random.Random(seed), {}
    while len(texts) < count:
        texts[" ".join(draw.choice(WORDS) for _ in range(words)) + "."] = None
    return list(texts)


@pytest.fixture(scope="session")
def old_encoder(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    """An encoder in use."""
    folder = tmp_path_factory.mktemp("goal")
    load_sentence_transformer(str(make_masked_lm(folder / "lm")), pooling="mean").save_pretrained(str(folder / "old"))
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
