"""A small corpus that has something to learn, and a tokeniser counted on it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.data.corpus import spool_corpus
from holdfast.pretraining.tokens import TokenisedCorpus, tokenise_corpus
from holdfast.pretraining.vocabulary import own_tokenizer

PAIRS = {"dog": "barks", "cat": "purrs", "horse": "gallops", "sparrow": "chirps", "baker": "kneads", "sailor": "rows"}
PLACES = "in the old garden,on a quiet hill,near the harbour,behind our house,under the wooden bridge".split(",")


def make_sentences(count: int, seed: int) -> list[str]:
    """Sentences whose verb follows from their noun."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        noun = draw.choice(sorted(PAIRS))
        lines.append(f"The {noun} {PAIRS[noun]} {' and '.join(draw.sample(PLACES, draw.randint(1, 3)))}.")
    return lines


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)


@pytest.fixture(scope="session")
def write_lines() -> Callable[[Path, int, int], Path]:
    """``write_lines(path, count, seed)``: so many sentences, one a line."""

    def write(path: Path, count: int, seed: int) -> Path:
        path.write_text("\n".join(make_sentences(count, seed)) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def corpus(tmp_path: Path, write_lines: Callable[[Path, int, int], Path]) -> Path:
    """400 sentences."""
    return write_lines(tmp_path / "corpus.txt", 400, 0)


@pytest.fixture
def tokenised(corpus: Path) -> tuple[Any, TokenisedCorpus]:
    """A tokeniser of 120 pieces, and the corpus in its tokens."""
    spooled = spool_corpus(str(corpus))
    tokenizer = own_tokenizer(spooled, 120, max_length=32)
    return tokenizer, tokenise_corpus(spooled, tokenizer, max_length=32)
