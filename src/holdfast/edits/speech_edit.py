"""Text as a speech recogniser writes it: no case, no punctuation, numbers as words, and some words misheard."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import ENGLISH, Change, Edit, Edited, edited
from holdfast.edits.sound_alikes import SoundAlikes, sound_alikes
from holdfast.edits.spoken_numbers import spoken_numbers
from holdfast.edits.words import APOSTROPHES, NEGATIONS, STOP_WORDS, Words

MISHEARD: Mapping[str, float] = {
    "function": 0.14,
    "frequent": 0.2,
    "less frequent": 0.28,
    "rare": 0.43,
    "unknown": 0.53,
}
"""Share of words that a recogniser missed in spoken questions (NoiseQA), by their frequency."""

_RANKS = ((5_000, "frequent"), (20_000, "less frequent"), (10**9, "rare"))
_DROPPED, _OTHER_FORM = 0.1, 0.15
"""Share of missed function words that are dropped, and of other missed words that get another ending."""
_SMALL_WORDS = 300  # a function word is taken for one of so many frequent words


class Speech(Edit):
    """Write a text as a speech recogniser does.

    Case and punctuation are gone and numbers are words, whatever the strength; a share ``strength`` of the words is
    misheard: rare words and names most often, which become more frequent words of like sound, sometimes two; others get
    another ending; function words become others or are dropped. Negations, contractions, possessives, letters and
    abbreviations in capitals are heard.
    """

    NAME: ClassVar = "speech"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = ENGLISH
    ABOUT: ClassVar = "a text as a speech recogniser writes it"

    def __init__(self, sounds: SoundAlikes | None = None) -> None:
        self.sounds = sounds or sound_alikes()

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text as heard; None if it stays the same."""
        words = Words.of(text)
        numbers = list(spoken_numbers(text))
        spans = words.spans
        free = [not any(change.begin < end and begin < change.end for change in numbers) for begin, end in spans]
        weights = self._weights(words, free, capitals=text.isupper())
        heard: dict[int, str] = {}
        left = number_to_change(strength, len(spans))
        for place in drawn_order(weights, rng):
            new = self._misheard(words.words[place].lower(), rng)
            if new or (new == "" and place + 1 < len(spans)):
                heard[place] = new
            if len(heard) == left:
                break
        return self._written(text, words, numbers, heard)

    def plain(self, text: str) -> str:
        """Return the text without case and punctuation, numbers as words, and nothing misheard."""
        made = self._written(text, Words.of(text), list(spoken_numbers(text)), {})
        return text if made is None else made.text

    def _weights(self, words: Words, free: Sequence[bool], *, capitals: bool) -> list[float]:
        """Return how often each word is misheard; ``capitals``: the whole text is in capitals."""
        return [
            self._weight(word, capitals=capitals) if ok and not words.is_contracted(place) else 0.0
            for place, (word, ok) in enumerate(zip(words.words, free, strict=True))
        ]

    def _weight(self, word: str, *, capitals: bool) -> float:
        is_letter = len(word) == 1 and word.lower() not in ("a", "i")
        is_abbreviation = len(word) > 1 and word.isupper() and not capitals
        if not word.isalpha() or is_letter or is_abbreviation:
            return 0.0
        word = word.lower()
        if word in NEGATIONS:  # the meaning stays
            return 0.0
        if word in STOP_WORDS:
            return MISHEARD["function"]
        rank = self.sounds.rank.get(word)
        return MISHEARD["unknown" if rank is None else next(name for most, name in _RANKS if rank < most)]

    def _misheard(self, word: str, rng: random.Random) -> str | None:
        """Draw what is heard instead of a word, in lower case; an empty string if it is not heard."""
        if word in STOP_WORDS:
            return "" if rng.random() < _DROPPED else self.sounds.draw(word, rng, _SMALL_WORDS)
        if rng.random() < _OTHER_FORM:
            form = self.sounds.other_form(word, rng)
            if form is not None:
                return form
        known = word in self.sounds.rank
        first, second = (self.sounds.draw, self.sounds.apart) if known else (self.sounds.apart, self.sounds.draw)
        return first(word, rng) or second(word, rng)

    def _written(self, text: str, words: Words, numbers: list[Change], heard: Mapping[int, str]) -> Edited | None:
        """Put together the changes of numbers, words and the gaps between them, each only if it changes something.

        None if the text stays the same, or if nothing of it can be heard.
        """
        changes, begin, dropped = list(numbers), 0, False
        for place, part in enumerate(words.parts):
            end = begin + len(part)
            for first, last in _outside(begin, end, numbers):
                if place % 2:
                    new = heard.get(place // 2, part.lower())
                else:
                    new = _gap(text[first:last], first=first == 0 or dropped, last=last == len(text))
                dropped = place % 2 == 1 and not new
                changes += [Change(first, last, new)] if new != text[first:last] else []
            begin = end
        made = edited(text, *changes)
        return made if made is not None and made.text.strip() else None


def _outside(begin: int, end: int, changes: Sequence[Change]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a span, none of them empty, that no change has."""
    for change in changes:
        if begin < change.end and change.begin < end:
            if begin < change.begin:
                yield begin, change.begin
            begin = change.end
    if begin < end:
        yield begin, end


def _gap(gap: str, *, first: bool, last: bool) -> str:
    """Return what remains of a gap: nothing of an apostrophe, else a space between two words."""
    return "" if first or last or gap in APOSTROPHES else " "
