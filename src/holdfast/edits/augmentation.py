"""Small changes of a text that keep its meaning: typos and synonyms."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.edits import characters
from holdfast.edits.synonyms import Synonyms
from holdfast.edits.words import Words, is_content_word

_NEAREST = 8  # number of nearest synonyms to draw from: further ones are less certain


class Edit(Protocol):
    """A small change of a word; returns None for a word that it cannot change."""

    def __call__(self, word: str, rng: random.Random) -> str | None:
        """Return the changed word."""


TYPOS: Mapping[str, Edit] = {
    "key": characters.keyboard_typo,
    "swap": characters.swap_letters,
    "drop": characters.delete_letter,
    "space": characters.insert_space,
    "case": characters.change_case,
    "look-alike": characters.homoglyph,
}
"""Changes inside a word, by name."""

SYNONYM = "synonym"


@dataclass(frozen=True)
class RandomEdits:
    """Random changes of a text's content words that keep its meaning.

    Attributes:
        edits: names from :data:`TYPOS`, and "synonym". Each changed word gets one of them: with probability ½ a
            synonym, if it has one, else a slip; all slips are equally likely.
        share: share of the content words to change, in (0, 1]; at least one word.
        synonyms: source of synonyms; required for the edit "synonym".
    """

    edits: tuple[str, ...]
    share: float
    synonyms: Synonyms | None = None

    def __post_init__(self) -> None:
        for edit in self.edits:
            if edit not in TYPOS and edit != SYNONYM:
                raise ValueError(f"unknown edit {edit!r}; edits: {', '.join((*TYPOS, SYNONYM))}")
        if not self.edits:
            raise ValueError("at least one edit is needed")
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}")
        if SYNONYM in self.edits and self.synonyms is None:
            raise ValueError("the edit 'synonym' needs a source of synonyms")

    def of(self, text: str, rng: random.Random) -> str:
        """Return the text with some words changed; the unchanged text if no word can be changed."""
        words = Words.of(text)
        places = [place for place, word in enumerate(words.words) if is_content_word(word)]
        rng.shuffle(places)
        left = max(1, round(self.share * len(places)))
        for place in places:
            if left == 0:
                break
            changed = self._changed(words.words[place], rng)
            if changed is not None:
                words, left = words.exchanged(place, changed), left - 1
        return words.text

    def _changed(self, word: str, rng: random.Random) -> str | None:
        """Apply the edits in random order, and return the result of the first one that changes the word."""
        order = rng.sample(self.edits, len(self.edits))
        if SYNONYM in order:  # not one edit of many: there are many more synonyms than slips to learn
            order.remove(SYNONYM)
            order.insert(0 if rng.random() < 0.5 else len(order), SYNONYM)
        for edit in order:
            changed = self._synonym(word, rng) if edit == SYNONYM else TYPOS[edit](word, rng)
            if changed is not None and changed != word:
                return changed
        return None

    def _synonym(self, word: str, rng: random.Random) -> str | None:
        assert self.synonyms is not None
        near = self.synonyms.nearest(word, _NEAREST)
        return rng.choice(near) if near else None
