"""Random changes of a text that keep its meaning: typing errors and synonyms."""

from __future__ import annotations

import random
from dataclasses import dataclass

from holdfast.edits.synonyms import Synonyms, draw_synonym
from holdfast.edits.typing_errors import TYPING_ERRORS, first_typing_error
from holdfast.edits.words import Words, is_content_word

SYNONYM = "synonym"


@dataclass(frozen=True)
class RandomEdits:
    """Random changes of a text's content words that keep its meaning.

    Attributes:
        edits: names from :data:`holdfast.edits.typing_errors.TYPING_ERRORS`, and "synonym". Each changed word gets one
            of them: with probability ½ a synonym, if it has one, else a typing error; all kinds are equally likely.
        share: share of the content words to change, in (0, 1]; at least one word.
        synonyms: source of synonyms; required for the edit "synonym".
    """

    edits: tuple[str, ...]
    share: float
    synonyms: Synonyms | None = None

    def __post_init__(self) -> None:
        for edit in self.edits:
            if edit not in TYPING_ERRORS and edit != SYNONYM:
                raise ValueError(f"unknown edit {edit!r}; edits: {', '.join((*TYPING_ERRORS, SYNONYM))}")
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
            changed = self._change(words.words[place], rng)
            if changed is not None:
                words, left = words.exchanged(place, changed), left - 1
        return words.text

    def _change(self, word: str, rng: random.Random) -> str | None:
        """Apply the edits in random order, and return the result of the first one that changes the word."""
        order = rng.sample(self.edits, len(self.edits))
        if self.synonyms is None or SYNONYM not in order:
            return first_typing_error(word, rng, order)
        # Not one edit of many, but half of the draws: there are many more synonyms than typing errors to learn.
        order.remove(SYNONYM)
        if rng.random() < 0.5:
            return draw_synonym(self.synonyms, word, rng) or first_typing_error(word, rng, order)
        return first_typing_error(word, rng, order) or draw_synonym(self.synonyms, word, rng)
