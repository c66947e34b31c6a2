"""Random changes of a text that keep its meaning: typing errors, synonyms, and people's noise."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.edits.edit import Edit
from holdfast.edits.misspellings import Misspellings
from holdfast.edits.noise import NOISE, noise_edits
from holdfast.edits.synonyms import Synonyms, draw_synonym
from holdfast.edits.typing_errors import TYPING_ERRORS, first_typing_error
from holdfast.edits.words import Words, is_content_word

SYNONYM = "synonym"


@dataclass(frozen=True)
class RandomEdits:
    """Random changes of a text's words that keep its meaning.

    Attributes:
        edits: names from :data:`holdfast.edits.typing_errors.TYPING_ERRORS`, "synonym", and names from
            :data:`holdfast.edits.noise.NOISE`. A text gets one kind of noise, or changes of content words; all names
            are equally likely. Each changed content word gets one of them: with probability ½ a synonym, if it has one,
            else a typing error.
        share: share of the content words to change, in (0, 1]; at least one word. Noise changes as many words.
        synonyms: source of synonyms; required for the edit "synonym".
        misspellings: known misspellings of words, from which the noise "typing" draws.
    """

    edits: tuple[str, ...]
    share: float
    synonyms: Synonyms | None = None
    misspellings: Misspellings | None = None

    def __post_init__(self) -> None:
        for edit in self.edits:
            if edit not in TYPING_ERRORS and edit != SYNONYM and edit not in NOISE:
                raise ValueError(f"unknown edit {edit!r}; edits: {', '.join((*TYPING_ERRORS, SYNONYM, *NOISE))}")
        if not self.edits:
            raise ValueError("at least one edit is needed")
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share}")
        if SYNONYM in self.edits and self.synonyms is None:
            raise ValueError("the edit 'synonym' needs a source of synonyms")
        if self.misspellings is not None and "typing" not in self.edits:
            raise ValueError("misspellings are for the edit 'typing', which is not among the edits: add it")
        self._noises  # noqa: B018 - a missing library is told now

    def of(self, text: str, rng: random.Random) -> str:
        """Return the text with some words changed; the unchanged text if no word can be changed."""
        words = Words.of(text)
        places = [place for place, word in enumerate(words.words) if is_content_word(word)]
        left = max(1, round(self.share * len(places)))
        # Without noise nothing is drawn here: the changes are those of earlier versions.
        kind = rng.randrange(len(self.edits)) if self._noises else len(self.edits)
        if kind < len(self._noises):
            made = self._noises[kind](text, rng, min(1.0, left / max(1, len(words.words))))
            return text if made is None else made.text
        rng.shuffle(places)
        for place in places:
            if left == 0:
                break
            changed = self._change(words.words[place], rng)
            if changed is not None:
                words, left = words.exchanged(place, changed), left - 1
        return words.text

    @functools.cached_property
    def _noises(self) -> tuple[Edit, ...]:
        return noise_edits((edit for edit in self.edits if edit in NOISE), misspellings=self.misspellings)

    @functools.cached_property
    def _word_edits(self) -> Sequence[str]:
        return [edit for edit in self.edits if edit not in NOISE]

    def _change(self, word: str, rng: random.Random) -> str | None:
        """Apply the edits in random order, and return the result of the first one that changes the word."""
        order = rng.sample(self._word_edits, len(self._word_edits))
        if self.synonyms is None or SYNONYM not in order:
            return first_typing_error(word, rng, order)
        # Not one edit of many, but half of the draws: there are many more synonyms than typing errors to learn.
        order.remove(SYNONYM)
        if rng.random() < 0.5:
            return draw_synonym(self.synonyms, word, rng) or first_typing_error(word, rng, order)
        return first_typing_error(word, rng, order) or draw_synonym(self.synonyms, word, rng)
