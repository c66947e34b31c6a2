"""Text as a speech recogniser writes it: no case, no punctuation, numbers as words, and some words misheard."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import ENGLISH, Change, Edit, Edited, edited
from holdfast.edits.sound_alikes import SoundAlikes, sound_alikes
from holdfast.edits.words import STOP_WORDS, Words

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
_NUMBER = re.compile(r"(?<![^\W_])\d+(?:,\d{3})*(?:\.\d+)?(st|nd|rd|th)?(?![^\W_])")
_LONGEST = 15  # digits of a number that is read as one


class Speech(Edit):
    """Write a text as a speech recogniser does.

    Case and punctuation are gone and numbers are words, whatever the strength; a share ``strength`` of the words is
    misheard: rare words and names most often, which become more frequent words of like sound, sometimes two; others get
    another ending; function words become others or are dropped.
    """

    NAME: ClassVar = "speech"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = ENGLISH
    ABOUT: ClassVar = "a text as a speech recogniser writes it"

    def __init__(self, sounds: SoundAlikes | None = None) -> None:
        from num2words import num2words

        self.sounds = sounds or sound_alikes()
        self.number_words = num2words

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text as heard; None if it stays the same."""
        words = Words.of(text)
        numbers = self._numbers(text)
        spans = words.spans
        free = [not any(change.begin < end and begin < change.end for change in numbers) for begin, end in spans]
        weights = [self._weight(word) if ok else 0.0 for word, ok in zip(words.words, free, strict=True)]
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
        made = self._written(text, Words.of(text), self._numbers(text), {})
        return text if made is None else made.text

    def _weight(self, word: str) -> float:
        if not word.isalpha():
            return 0.0
        word = word.lower()
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

    def _numbers(self, text: str) -> list[Change]:
        changes = []
        for match in _NUMBER.finditer(text):
            spoken = self._spoken(match.group(), match[1])
            if spoken is not None:
                changes.append(Change(*match.span(), spoken))
        return changes

    def _spoken(self, number: str, ordinal: str | None) -> str | None:
        digits = number.removesuffix(ordinal or "").replace(",", "")
        if len(digits) > _LONGEST or not digits.isascii():
            return None
        is_year = len(number) == 4 and 1100 <= int(number) <= 2099 if number.isdigit() else False
        kind = "ordinal" if ordinal and "." not in digits else "year" if is_year else "cardinal"
        value: Any = float(digits) if "." in digits else int(digits)
        return _plain(str(self.number_words(value, to=kind)))

    def _written(self, text: str, words: Words, numbers: list[Change], heard: Mapping[int, str]) -> Edited | None:
        """Put together the changes of numbers, words and the gaps between them, each only if it changes something."""
        changes, begin, dropped = list(numbers), 0, False
        inside = [(change.begin, change.end) for change in numbers]
        for place, part in enumerate(words.parts):
            end = begin + len(part)
            if part and not any(first < end and begin < last for first, last in inside):
                if place % 2:
                    new = heard.get(place // 2, part.lower())
                else:
                    new = _gap(part, first=begin == 0 or dropped, last=end == len(text))
                dropped = place % 2 == 1 and not new
                changes += [Change(begin, end, new)] if new != part else []
            begin = end
        return edited(text, *changes)


def _gap(gap: str, *, first: bool, last: bool) -> str:
    """Return what remains of a gap: nothing of an apostrophe, else a space between two words."""
    return "" if first or last or gap in ("'", "’") else " "


def _plain(spoken: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", spoken.lower()).split())
