"""A small training world: a corpus, STS-B dev pairs and a model, all made here."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

WORDS = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()


@pytest.fixture(scope="session")
def write_corpus() -> Callable[[Path], Path]:
    """``write_corpus(path)``: 60 different sentences of 2 to 14 words."""

    def write(path: Path) -> Path:
        draw = random.Random(0)
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 14))) for _ in range(60)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def corpus(tmp_path: Path, write_corpus: Callable[[Path], Path]) -> Path:
    """60 different sentences of 2 to 14 words."""
    return write_corpus(tmp_path / "corpus.txt")


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A data folder with 30 scored STS-B dev pairs."""
    draw = random.Random(1)
    folder = tmp_path / "labelled" / "stsb"
    folder.mkdir(parents=True)
    rows = ["sentence1\tsentence2\tscore"]
    for _ in range(30):
        first, second = (" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(2))
        rows.append(f"{first}\t{second}\t{draw.randint(0, 50) / 10}")
    (folder / "dev.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder.parent


@pytest.fixture
def tiny(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    """A random masked LM."""
    return make_masked_lm(tmp_path / "tiny")
