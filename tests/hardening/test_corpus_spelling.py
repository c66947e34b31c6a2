"""The spelling correction of a hardening: made once, of the training's own texts, and written beside the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.baselines.spelling_step import SPELLING_FOLDER, spelling_step
from holdfast.hardening import corpus_spelling
from holdfast.hardening.corpus_spelling import SYSTEM, CorpusSpelling

pytest.importorskip("symspellpy")
ENGLISH = [f"the linebacker Luke Kuechly registered {number} tackles in the season" for number in range(30)]


def test_it_is_made_once_and_measured_as_it_is_saved(tmp_path: Path) -> None:
    reads: list[int] = []

    def texts() -> Iterator[str]:
        reads.append(1)
        return iter(ENGLISH)

    spelling = CorpusSpelling(texts)
    correct = spelling.systems()[SYSTEM]
    assert correct is not None
    assert correct("how many tackles did Kuecly register") == "how many tackles did Kuechly register"
    line = spelling.save(tmp_path)
    assert str(tmp_path / SPELLING_FOLDER) in line
    assert len(reads) == 2, "the language, and the words"
    assert spelling_step(tmp_path)("how many tackels did Kuecly register") == "how many tackles did Kuechly register"
    assert CorpusSpelling(lambda: iter(())).save(tmp_path) == line, "a resumed run keeps what is there"


def test_other_languages_get_none_and_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    german = ["Der Vertrag wird jedes Jahr verlängert, wenn niemand ihn kündigt und alle zufrieden sind."] * 20
    spelling = CorpusSpelling(lambda: iter(german))
    assert spelling.systems() == {}
    assert spelling.save(tmp_path) == "no spelling correction is written: the texts are not English (de)"
    assert not (tmp_path / SPELLING_FOLDER).exists()


def test_it_counts_no_more_than_its_share_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_spelling, "MOST_TEXTS", 3)
    made = CorpusSpelling(lambda: iter(ENGLISH)).correction()
    assert made is not None
    assert made.counts.texts == 3
