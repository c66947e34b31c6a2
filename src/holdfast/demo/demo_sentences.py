"""The demo's sentences: pairs with graded similarities, and labelled sentences, written by holdfast's authors.

They are for demonstration. Grades and labels of a few hundred invented sentences by one author are not a benchmark: do
not report scores or accuracies on them as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from holdfast.demo.demo_texts import rows_of
from holdfast.files import write_text

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")


@dataclass(frozen=True, slots=True)
class GradedPair:
    """Two sentences and the similarity of their meanings, from 0 (unrelated) to 5 (the same).

    `kind` is the phenomenon that the pair tests.
    """

    sentence1: str
    sentence2: str
    score: float
    kind: str


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence, its sentiment (``positive`` or ``negative``), and its split."""

    sentence: str
    label: str
    split: str


def load_pairs() -> list[GradedPair]:
    """Load the sentence pairs, graded 0 to 5 in steps of 0.2 on the scale of the STS tasks."""
    return [GradedPair(first, second, float(score), kind) for first, second, score, kind in rows_of("pairs.tsv")]


def load_sentiment() -> list[LabelledSentence]:
    """Load the sentences on films, meals, books, journeys, gadgets, matches, jobs, weather and similar subjects."""
    return [LabelledSentence(sentence, label, split) for split, label, sentence in rows_of("sentiment.tsv")]


def write_sentiment(folder: Path) -> None:
    """Write the labelled sentences as a task for all commands: ``FOLDER/train.tsv`` and ``FOLDER/test.tsv``.

    Raises:
        UserError: the folder cannot be written.
    """
    sentences = load_sentiment()
    for split in SPLITS:
        rows = [f"{one.sentence}\t{one.label}\n" for one in sentences if one.split == split]
        write_text(folder / f"{split}.tsv", "sentence\tlabel\n" + "".join(rows))
