"""The demo's labelled sentences: few enough to fine-tune on in half a minute, and written for attacks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from holdfast.files import write_text

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence, its sentiment (``positive`` or ``negative``), and its split."""

    sentence: str
    label: str
    split: str


def load_sentiment() -> list[LabelledSentence]:
    """Load the demo's sentences on films, meals, books, journeys, gadgets, matches, jobs, weather and similar subjects.

    They were written and labelled by holdfast's authors, for demonstration; no sentence is from a data set. A few
    hundred sentences by one author are not a benchmark: do not report accuracies on them as one.
    """
    text = resources.files("holdfast.demo").joinpath("sentiment.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.split("\n")[1:] if line]
    return [LabelledSentence(sentence, label, split) for split, label, sentence in rows]


def write_sentiment(folder: Path) -> None:
    """Write the sentences as a task for all commands: ``FOLDER/train.tsv`` and ``FOLDER/test.tsv``.

    Raises:
        UserError: the folder cannot be written.
    """
    sentences = load_sentiment()
    for split in SPLITS:
        rows = [f"{one.sentence}\t{one.label}\n" for one in sentences if one.split == split]
        write_text(folder / f"{split}.tsv", "sentence\tlabel\n" + "".join(rows))
