"""The labelled sentences: enough of them, balanced, varied, distinct, and nobody else's."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from holdfast.data.registry import load_labelled
from holdfast.demo.demo_sentences import SPLITS, LabelledSentence, load_sentiment, write_sentiment

ALIKE = 0.5  # of the words of two sentences together, those that both have: more is the same template filled in again


@pytest.fixture(scope="module")
def sentences() -> list[LabelledSentence]:
    return load_sentiment()


def words(sentence: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z']+", sentence.lower()))


def letters(sentence: str) -> str:
    return re.sub(r"[^a-z]+", "", sentence.lower())


def test_the_splits_are_large_enough_and_balanced(sentences: list[LabelledSentence]) -> None:
    counts = Counter((one.split, one.label) for one in sentences)
    assert len(sentences) >= 480
    assert set(counts) == {(split, label) for split in SPLITS for label in ("negative", "positive")}
    assert counts["train", "negative"] == counts["train", "positive"] >= 180
    assert counts["test", "negative"] == counts["test", "positive"] >= 60


def test_sentences_are_clean_and_of_many_lengths(sentences: list[LabelledSentence]) -> None:
    lengths = [len(one.sentence.split()) for one in sentences]
    assert (min(lengths), max(lengths) >= 22, max(lengths) <= 25) == (4, True, True)
    for one in sentences:
        assert one.sentence == " ".join(one.sentence.split())
        assert one.sentence.isascii()
        assert (one.sentence[0].isupper(), one.sentence[-1] in ".!?") == (True, True)


def test_no_two_sentences_are_alike(sentences: list[LabelledSentence]) -> None:
    bags = [words(one.sentence) for one in sentences]
    alike = [
        (sentences[i].sentence, sentences[j].sentence)
        for i, first in enumerate(bags)
        for j, second in enumerate(bags[:i])
        if len(first & second) > ALIKE * len(first | second)
    ]
    assert alike == []


def test_few_are_decided_by_an_obvious_word(sentences: list[LabelledSentence]) -> None:
    obvious = words("good great best bad worst awful terrible horrible wonderful excellent love loved hate hated")
    plain = sum(bool(words(one.sentence) & obvious) for one in sentences)
    assert plain < 0.15 * len(sentences)
    negated = [one for one in sentences if words(one.sentence) & words("not no never nothing nobody without hardly")]
    assert min(Counter(one.label for one in negated).values()) >= 25, "a negation alone gives nothing away"


def test_they_are_written_as_a_task_that_verbs_take(sentences: list[LabelledSentence], tmp_path: Path) -> None:
    write_sentiment(tmp_path / "sentiment")
    for split in SPLITS:
        task = load_labelled(str(tmp_path / "sentiment"), split)
        own = [one for one in sentences if one.split == split]
        assert task.sentences1 == [one.sentence for one in own]
        assert [task.classes[label] for label in task.labels] == [one.label for one in own]


@pytest.mark.parametrize("task", ["sst2", "mr"])
def test_no_sentence_is_from_a_data_set(sentences: list[LabelledSentence], task: str) -> None:
    folder = os.environ.get("HOLDFAST_DATA")
    if not folder:
        pytest.skip("HOLDFAST_DATA does not name the folder of the public data sets")
    files = sorted(Path(folder, task).glob("*.tsv*"))
    if not files:
        pytest.skip(f"{folder} has no {task}")
    own = {letters(one.sentence) for one in sentences}
    theirs = {letters(text) for text in _texts(files)}
    assert len(theirs) > 5000
    assert own & theirs == set()


def _texts(files: list[Path]) -> list[str]:
    """Every text of these files: the fields of each row that are longer than a label."""
    lines = []
    for path in files:
        raw = path.read_bytes()
        lines += (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8").split("\n")
    return [field for line in lines for field in line.split("\t") if " " in field.strip()]
