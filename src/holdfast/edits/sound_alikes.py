"""English words that sound like another: by metaphone codes (jellyfish) of a frequency dictionary (symspellpy).

A word's metaphone code holds its consonants, so that words of one code are homophones (*knot*, *not*) or differ in a
vowel (*leaving*, *living*).
"""

from __future__ import annotations

import functools
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.edits.word_frequency import english_word_counts
from holdfast.edits.words import NEGATIONS

_KNOWN = 30_000
"""Number of the most frequent words that may be heard; a recogniser writes no rarer ones."""
_BEST = 4
_MOST_REMEMBERED = 100_000  # words whose sound-alikes are kept; a search takes a millisecond
_ROMAN = re.compile(r"(?=..)(?!mix$)m{0,3}(cm|cd|d?c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_ENDINGS = ("s", "ed", "d", "ing", "es", "r", "ly")


@dataclass(frozen=True)
class SoundAlikes:
    """A dictionary by sound.

    Attributes:
        rank: place of each word in the order of frequency; 0 is the most frequent.
        code: the function that gives a word's metaphone code.
        similarity: the similarity of two spellings, 0 to 1.
        heard: words that may be heard by each code, and by each code without one of its sounds; frequent words first.
            Negations, which would change the meaning, Roman numerals and abbreviations without a vowel are not heard.
    """

    rank: Mapping[str, int]
    code: Callable[[str], str]
    similarity: Callable[[str, str], float]
    heard: Mapping[str, Sequence[str]]
    _remembered: dict[tuple[str, int], list[str]] = field(default_factory=dict, compare=False, repr=False)

    def draw(self, word: str, rng: random.Random, most: int = _KNOWN) -> str | None:
        """Draw one of the words that sound most like a word, in lower case; None if there is none.

        They are among the ``most`` frequent, and have its code, or one that differs in one sound. The best of these are
        similarly spelt (which tells about the vowels) and frequent.
        """
        best = self._once((word, most), lambda: self._most_alike(word, most))
        return rng.choice(best) if best else None

    def _once(self, key: tuple[str, int], search: Callable[[], list[str]]) -> list[str]:
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = search()
        return found

    def _most_alike(self, word: str, most: int) -> list[str]:
        code = self.code(word)
        keys = [code, *_shorter(code)] if len(code) > 1 else [code]
        found = {
            other for key in keys for other in self.heard.get(key, ()) if other != word and self.rank[other] < most
        }
        scores = {other: self.similarity(word, other) - 0.02 * math.log(self.rank[other] + 1) for other in found}
        return sorted(found, key=lambda other: (-scores[other], self.rank[other]))[:_BEST]

    def other_form(self, word: str, rng: random.Random) -> str | None:
        """Draw a word that differs by an ending (*claim*, *claimed*); None if the dictionary has none."""
        forms = [word + ending for ending in _ENDINGS]
        forms += [word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending)]
        known = [form for form in forms if self.rank.get(form, _KNOWN) < _KNOWN and _is_heard(form)]
        return rng.choice(known) if known else None

    def apart(self, word: str, rng: random.Random) -> str | None:
        """Draw two words that together sound like a word (*Manakintown*: *manakin town*); None if there are none."""
        pairs = self._once((word, 0), lambda: self._pairs(word))
        return rng.choice(pairs) if pairs else None

    def _pairs(self, word: str) -> list[str]:
        halves = ((word[:place], word[place:]) for place in range(2, len(word) - 1))
        found = ([self._nearest(half) for half in both] for both in halves)
        return [f"{first} {second}" for first, second in found if first and second]

    def _nearest(self, part: str) -> str | None:
        """Return the word of the same code that is spelt most alike, the part itself if it is a word."""
        if self.rank.get(part, _KNOWN) < _KNOWN and _is_heard(part):
            return part
        same = [word for word in self.heard.get(self.code(part), ()) if self.code(word) == self.code(part)]
        return max(same, key=lambda word: self.similarity(part, word), default=None)


@functools.cache
def sound_alikes() -> SoundAlikes:
    """Return the dictionary by sound, which takes half a second to build."""
    import jellyfish

    words = list(english_word_counts())
    rank = {word: place for place, word in enumerate(words)}
    heard: dict[str, list[str]] = defaultdict(list)
    for word in words[:_KNOWN]:
        code = jellyfish.metaphone(word)
        if code and word.isalpha() and _is_heard(word):
            for key in {code, *_shorter(code)} if len(code) > 1 else {code}:
                heard[key].append(word)
    return SoundAlikes(rank, jellyfish.metaphone, jellyfish.jaro_winkler_similarity, heard)


def _is_heard(word: str) -> bool:
    """Return True for a word that may be heard in place of another."""
    if len(word) == 1:
        return word in ("a", "i")
    return word not in NEGATIONS and _ROMAN.fullmatch(word) is None and not set(word).isdisjoint("aeiouy")


def _shorter(code: str) -> list[str]:
    """Return the code without one of its sounds, each once; codes that share one of these differ in a sound."""
    return list(dict.fromkeys(code[:place] + code[place + 1 :] for place in range(len(code))))
