"""Move edits for the small world of the tests, and encoders whose place on the card is known."""

from __future__ import annotations

import hashlib
import random
from typing import Any, ClassVar

import numpy as np

from holdfast.edits.edit import Edit, Edited, edited
from holdfast.edits.words import Words


class SwappedEnds(Edit):
    """The second and the last word exchanged: roles swapped, and the same bag of words."""

    NAME, SIDE, LANGUAGE, ABOUT = "roles", "move", None, "two words exchanged"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        words = Words.of(text)
        if len(words.words) < 4:
            return None
        (one, two), (three, four) = words.spans[1], words.spans[-1]
        return edited(text, (one, two, text[three:four]), (three, four, text[one:two]))


class ScrambledHalf(Edit):
    """The first half of the words exchanged in pairs."""

    NAME, SIDE, LANGUAGE, ABOUT = "scrambled", "move", None, "half of the words exchanged"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        words = Words.of(text)
        places = range(0, len(words.words) // 2 - 1, 2)
        pairs = [(place, other) for first in places for place, other in ((first, first + 1), (first + 1, first))]
        return edited(text, *((*words.spans[place], words.words[other]) for place, other in pairs))


class Not(Edit):
    """The word "not" put before the last word."""

    NAME, SIDE, LANGUAGE, ABOUT = "negation", "move", "en", "a negation put in"
    WORD: ClassVar[str] = "not"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        begin = Words.of(text).spans[-1][0]
        return edited(text, (begin, begin, f"{self.WORD} "))


class Replaced(Edit):
    """A word replaced by an unknown name."""

    NAME, SIDE, LANGUAGE, ABOUT = "name.other", "move", None, "a word replaced by a name"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        spans = Words.of(text).spans
        return edited(text, (*rng.choice(spans), "Zanzibar"))


MOVES: tuple[Any, ...] = (SwappedEnds(), Not(), Replaced())


def _vector(name: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    return np.random.default_rng(seed).normal(size=64)


def bag_of_words(texts: list[str]) -> np.ndarray:
    """The sum of a vector per word, in lower case: blind to order, case and punctuation."""
    return np.stack([sum((_vector(w) for w in Words.of(t.lower()).words), np.zeros(64)) + 1e-9 for t in texts])


def at_random(texts: list[str]) -> np.ndarray:
    """A vector per text that has nothing to do with any other text."""
    return np.stack([_vector(text) for text in texts])


def blind_to_not(texts: list[str]) -> np.ndarray:
    """A bag of words that skips "not"."""
    return bag_of_words([" ".join(w for w in Words.of(t.lower()).words if w != "not") for t in texts])
