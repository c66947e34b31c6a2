"""Linguistic resources in a few lines, over the words of the small random models; and what attacks are tried with."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks.training_edits import TrainingEdits
from holdfast.cli import main
from holdfast.edits.words import in_case_of
from holdfast.results import read_result

NOUNS = ["man", "woman", "child", "dog", "cat", "park", "house", "bed"]
VERBS = ["runs", "sleeps", "eats", "plays", "sings"]
ADJECTIVES = ["red", "big", "old"]
CONTENT = [*NOUNS, *VERBS, *ADJECTIVES]
WORDS = ["the", "a", "on", "under", "in", *CONTENT]

TEXTS = [
    "the old man sleeps on the big red bed in the house",
    "a dog runs in the park",
    "the woman sings under the house",
    "a cat eats in the park",
    "the child plays",
    "the big dog sleeps in the red house on a bed under the park",
    "a man runs in the park",
    "the child sings",
    "a red cat sleeps",
    "the old woman eats in the house",
    "big dog plays",
    "a man sings on the bed",
]

ATTACK = ["attack", "model", "--task", "textfooler/mnli", "--recipes", "pwws,typos", "--precision", "fp32"]
"""Of the classifier in the fixture ``here``."""


def split(text: str) -> list[str]:
    """Words as people see them in the small vocabulary; not the project's own way of cutting."""
    return re.findall(r"[A-Za-z0-9\u0370-\u1fff]+", text)


def kind(word: str) -> str:
    """Of the small vocabulary, as a tagger would tell it."""
    word = word.lower()
    return "noun or verb" if word in NOUNS or word in VERBS else "adjective" if word in ADJECTIVES else "other"


@dataclass
class SmallResources:
    """Every resource in a few lines: lists of synonyms, tags by lists, and a similarity of shared words.

    Everything that is asked for is counted in ``asked``.
    """

    masked_lm: Any = None
    minimum: float | None = None
    source: str = "small"
    complete: bool = True
    asked: dict[str, int] = field(default_factory=dict)

    def nearest(self, word: str, limit: int, minimum: float = 0.0) -> list[str]:
        return [in_case_of(word, other) for other in neighbours(word)][:limit]

    def tags(self, words: Sequence[str]) -> list[str]:
        kinds = {"NOUN": NOUNS, "VERB": VERBS, "ADJ": ADJECTIVES}
        return [next((tag for tag, known in kinds.items() if word.lower() in known), "X") for word in words]

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.asked["pairs"] = self.asked.get("pairs", 0) + len(pairs)
        return [cosine(a, b) for a, b in pairs]

    def threshold(self, published: float) -> float:
        return published if self.minimum is None else self.minimum


class SmallWordNet:
    """The part of WordNet that recipes use."""

    def synonyms(self, word: str, *, tag: str | None = None, inflected: bool = False) -> list[str]:
        return [in_case_of(word, other) for other in reversed(neighbours(word))]


def neighbours(word: str) -> list[str]:
    """Six other words, the same for each word, some of another part of speech."""
    if word.lower() not in CONTENT:
        return []
    others = [other for other in CONTENT if other != word.lower()]
    return random.Random(word.lower()).sample(others, 6)


def cosine(a: str, b: str) -> float:
    """Of the counts of words: at least 0.5 as a rule when one word of a sentence was changed."""
    first, second = a.lower().split(), b.lower().split()
    words = sorted({*first, *second})
    x, y = (np.array([text.count(word) for word in words], dtype=float) for text in (first, second))
    return round(float(x @ y / max(np.linalg.norm(x) * np.linalg.norm(y), 1e-9)), 5)


class Resources:
    """Small resources under the names that recipes use."""

    def __init__(self, small: SmallResources) -> None:
        self.synonyms = self.tagger = self.similarity = small
        self.wordnet, self.masked_lm = SmallWordNet(), small.masked_lm
        self.training_edits = TrainingEdits("small", ("typing",), str.lower, frozenset(WORDS))
        self.small = small


def sentence(rng: random.Random, longest: int = 14) -> str:
    """A random sentence of the small vocabulary, with a capital and a full stop."""
    words = rng.choices(WORDS, k=rng.randint(3, longest))
    return " ".join(words).capitalize() + "."


def write(path: Path, header: list[str], rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), encoding="utf-8")


def content(path: Path) -> dict[str, Any]:
    """A result without what is different each time."""
    result = read_result(path)
    for key in ("created", "timing", "command", "environment"):
        result.pop(key)
    for example in result["examples"]:
        example["before"].pop("value", None), example["after"].pop("value", None)
        example.pop("passes")
    return result


def mistake(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    message = capsys.readouterr()
    assert "Traceback" not in message.err
    return message.err.splitlines()[-1]
