"""Training texts made of a corpus: which are joined, which are held out, and that both depend on the seed alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.data.corpus import SpooledCorpus, spool_corpus
from holdfast.data.joined_texts import MOST_JOINED, divided


@pytest.fixture
def corpus(tmp_path: Path) -> SpooledCorpus:
    """400 texts, of which the last 20 repeat the first."""
    (tmp_path / "corpus.txt").write_text("".join(f"text {n % 380}\n" for n in range(400)), encoding="utf-8")
    return spool_corpus(str(tmp_path / "corpus.txt"), folder=tmp_path / "spooled")


def test_nothing_is_changed_where_nothing_is_asked(corpus: SpooledCorpus, tmp_path: Path) -> None:
    parts = divided(corpus, folder=tmp_path / "spooled")
    assert parts.training is corpus
    assert parts.held_out == []


def test_a_share_of_the_texts_is_joined_with_those_that_follow(corpus: SpooledCorpus, tmp_path: Path) -> None:
    texts = corpus.dataset["sentence"]
    made = list(divided(corpus, join=0.25, folder=tmp_path / "spooled").training.dataset["sentence"])
    assert len(made) == len(texts)
    counts = []
    for number, text in enumerate(made):
        count = text.count("text")
        assert text == " ".join(texts[number : number + count])
        counts.append(count)
    share = sum(count > 1 for count in counts) / len(counts)
    assert 0.18 < share < 0.32
    assert set(counts) == set(range(1, MOST_JOINED + 1))


def test_held_out_texts_are_not_trained_on(corpus: SpooledCorpus, tmp_path: Path) -> None:
    parts = divided(corpus, held_out=30, join=0.2, folder=tmp_path / "spooled")
    assert 25 <= len(parts.held_out) <= 30
    training = {f"text {number}" for text in parts.training.dataset["sentence"] for number in text.split()[1::2]}
    assert training.isdisjoint(parts.held_out)
    assert training | set(parts.held_out) == set(corpus.dataset["sentence"])
    assert len(divided(corpus, held_out=1000, folder=tmp_path / "spooled").held_out) <= corpus.sentences // 10


def test_both_depend_on_the_seed_alone(corpus: SpooledCorpus, tmp_path: Path) -> None:
    options = {"held_out": 20, "join": 0.3, "folder": tmp_path / "spooled"}
    first, again = (divided(corpus, seed=1, **options) for _ in range(2))
    other = divided(corpus, seed=2, **options)
    assert (first.training.sha256, first.held_out) == (again.training.sha256, again.held_out)
    assert first.training.sha256 != other.training.sha256
    assert first.held_out != other.held_out


def test_a_joined_text_is_not_longer_than_the_longest_line(corpus: SpooledCorpus, tmp_path: Path) -> None:
    made = divided(corpus, join=0.9, max_chars=17, folder=tmp_path / "spooled").training.dataset["sentence"]
    assert max(map(len, made)) <= 17
    assert max(text.count("text") for text in made) == 2
