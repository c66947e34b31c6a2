"""The demo's texts, written by holdfast's authors: passages of everyday life, questions on them, and changed meanings.

They are for demonstration. A few hundred texts of one author are not a benchmark: do not report scores on them as one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from holdfast.evaluation.pseudo_queries import sentences_of

_PROSE = 2500
"""Sentences of Python's documentation in the training corpus: four for each text of the demo's own."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the index of the passage that answers it."""

    passage: int
    text: str


@dataclass(frozen=True, slots=True)
class Town:
    """Passages of what people look up in a town and at home.

    Attributes:
        passages: the passages.
        questions: the questions that are measured; no training reads them.
        training: other questions, for training.
    """

    passages: list[str]
    questions: list[Question]
    training: list[str]


@dataclass(frozen=True, slots=True)
class ChangedMeaning:
    """A text, another wording of the same, and a text with nearly its words and another meaning.

    `kind` is what was changed: negation, antonym, number, name, roles or quantity.
    """

    kind: str
    text: str
    same: str
    other: str


def rows_of(file: str) -> list[list[str]]:
    """Return the rows of a table of the demo, without its header."""
    text = resources.files("holdfast.demo").joinpath(file).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.split("\n")[1:] if line]


def load_town() -> Town:
    """Load the passages and questions."""
    rows = rows_of("town.tsv")
    names = [name for kind, name, _ in rows if kind == "passage"]
    return Town(
        passages=[text for kind, _, text in rows if kind == "passage"],
        questions=[Question(names.index(name), text) for kind, name, text in rows if kind == "query"],
        training=[text for kind, _, text in rows if kind == "training"],
    )


def load_changed_meanings() -> list[ChangedMeaning]:
    """Load the texts with a changed meaning."""
    return [ChangedMeaning(*row) for row in rows_of("meanings.tsv")]


def training_corpus(prose: Sequence[str], seed: int) -> list[str]:
    """Return the passages and their sentences, and a draw of at most `_PROSE` sentences of prose.

    No text that is audited is among them. The training questions (`Town.training`) are apart from them.
    """
    town = load_town()
    own = [*town.passages, *(sentence for passage in town.passages for sentence in sentences_of(passage))]
    drawn = random.Random(f"{seed}/demo/prose").sample(list(prose), min(_PROSE, len(prose)))
    held_out = set(audited_texts())
    return [text for text in dict.fromkeys([*own, *drawn]) if text not in held_out]


def audited_texts() -> list[str]:
    """Return the texts of the report card: the measured questions, and the texts whose meaning is changed."""
    return list(dict.fromkeys([*(each.text for each in load_town().questions), *_texts()]))


def _texts() -> list[str]:
    return [each.text for each in load_changed_meanings()]
