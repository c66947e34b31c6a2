"""Texts split into replaceable words, and the stop words, which attacks never replace."""

from __future__ import annotations

import functools
import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_WORD = re.compile(r"([^\W_]+)")
_UNSPACED = re.compile(  # Thai, Lao, Burmese, Khmer, kana and ideographs
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SELECTORS = ("VARIATION SELECTOR", "MONGOLIAN FREE VARIATION SELECTOR")  # of emoji and glyphs, no part of a word

UNIVERSAL_TAGS = ("NOUN", "VERB", "ADJ", "ADV", "PRON", "DET", "ADP", "NUM", "CONJ", "PRT", ".", "X")
"""The universal parts of speech (Petrov et al. 2012)."""

STOP_WORDS = frozenset(
    """
    a an the this that these those such same other another each every either neither both all any some few many much
    more most less least several enough no none not only own
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us
    our ours ourselves they them their theirs themselves one ones oneself who whom whose which what whoever whatever
    whichever someone somebody something anyone anybody anything everyone everybody everything nobody nothing noone
    am is are was were be been being have has had having do does did doing done can could may might must shall should
    will would ought cannot
    about above across after against along amid among amongst around as at before behind below beneath beside besides
    between beyond but by despite down during except for from in inside into like near of off on onto out outside over
    past per since than through throughout thru till to toward towards under underneath until unto up upon via with
    within without
    and or nor so yet if unless because although though while whereas whether when whenever where wherever why how
    once lest
    again also almost already always else ever even here hence however indeed instead just maybe meanwhile moreover
    namely never nevertheless nonetheless now nowhere often otherwise perhaps quite rather still somehow somewhat
    sometimes somewhere then thence there therefore thereby thereafter therein thereupon thus together too very well
    whereby wherein whereupon anyhow anyway anywhere everywhere elsewhere hereby herein afterwards beforehand
    s t d m o y ll re ve ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren
    won wouldn ma
    """.split()
)
"""English function words, and the parts of contractions split at the apostrophe; lower case."""

NEGATIONS = frozenset("no not never none nor neither nothing nobody noone nowhere without cannot".split())
"""English words that negate; lower case."""

APOSTROPHES = ("'", "’")
_CLITICS = frozenset("s t d m ll re ve".split())


@dataclass(frozen=True)
class Words:
    """A text split into words and gaps; the joined parts are exactly the text.

    A word is a run of letters and digits, with their accents and vowel signs, which Unicode may write as characters of
    their own; hyphens, apostrophes and other punctuation belong to gaps.

    Attributes:
        parts: gap, word, gap, word, …, gap; gaps may be empty.
    """

    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Words:
        """Split a text."""
        return cls(tuple((_WORD if text.isascii() else _word_of_any_script()).split(text)))

    @property
    def text(self) -> str:
        """The text."""
        return "".join(self.parts)

    def is_contracted(self, place: int) -> bool:
        """Return True if a word is half of a contraction or possessive, as both words of "that's" and "dog's"."""
        return any(
            self.parts[2 * second] in APOSTROPHES and self.parts[2 * second + 1].lower() in _CLITICS
            for second in (place, place + 1)
            if 0 < 2 * second < len(self.parts) - 1
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in order."""
        return self.parts[1::2]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The begin and end of each word in the text, in characters."""
        spans, begin = [], 0
        for place, part in enumerate(self.parts):
            if place % 2:
                spans.append((begin, begin + len(part)))
            begin += len(part)
        return spans

    @property
    def units(self) -> list[tuple[int, int]]:
        """The begin and end of each word, but of each character of a word in a script without blanks, as Chinese."""
        units = []
        for begin, end in self.spans:
            if is_unspaced(self.text[begin:end]):
                units += [(place, place + 1) for place in range(begin, end)]
            else:
                units.append((begin, end))
        return units

    def exchanged(self, index: int, word: str) -> Words:
        """Return a copy with word ``index`` replaced by another word or any other string."""
        place = 2 * index + 1
        return Words((*self.parts[:place], word, *self.parts[place + 1 :]))

    def without(self, index: int) -> str:
        """Return the text without word ``index`` and without one space before or after it."""
        place = 2 * index + 1
        before, after = "".join(self.parts[:place]), "".join(self.parts[place + 1 :])
        if after[:1].isspace() and (not before or before[-1:].isspace()):
            after = after[1:]
        elif not after and before[-1:].isspace():
            before = before[:-1]
        return before + after

    def around(self, index: int, width: int) -> str:
        """Return a window of at most ``width`` words around word ``index``, which is in the middle if possible.

        As in TextAttack, the window is shifted, not shortened, at the ends of the text.
        """
        count = len(self.parts) // 2
        begin = max(0, min(index - width // 2, count - width))
        end = min(count, begin + width)
        return "".join(self.parts[2 * begin + 1 : 2 * end])


def is_unspaced(text: str) -> bool:
    """Return True if a text has characters of a script that writes no blanks between words."""
    return not text.isascii() and _UNSPACED.search(text) is not None


@functools.cache
def combining_marks() -> str:
    """Return the accents and vowel signs that are characters of their own, as the inside of a class of `re`."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0x20000):  # beyond are ideographs
        if unicodedata.category(chr(code)) in ("Mn", "Mc") and not unicodedata.name(chr(code)).startswith(_SELECTORS):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


@functools.cache
def _word_of_any_script() -> re.Pattern[str]:
    return re.compile(rf"([^\W_]+(?:[{combining_marks()}]+[^\W_]*)*)")


def pieces(original: str, adversarial: str, changes: Sequence[Sequence[Any]]) -> list[str | tuple[str, str]]:
    """Split a text for a display of its changes: unchanged parts as strings, changed ones as ``(old, new)``.

    Args:
        original: the original text.
        adversarial: the changed text.
        changes: ``(index, old word, new word)`` for each changed word. If there are none, but the texts differ (as in a
            full stop), everything from the first difference to the end counts as one change.
    """
    if not changes and adversarial != original:
        pairs = enumerate(zip(original, adversarial, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(original), len(adversarial)))
        end = (original[same:], adversarial[same:])
        return [original[:same], end] if same else [end]
    new = {place: word for place, _, word in changes}
    found: list[str | tuple[str, str]] = [""]
    for at, part in enumerate(Words.of(original).parts):
        if at % 2 and at // 2 in new:
            found += [(part, new[at // 2]), ""]
        else:
            found[-1] = str(found[-1]) + part
    return [piece for piece in found if piece]


def spanned_pieces(original: str, spans: Sequence[Sequence[Any]]) -> list[str | tuple[str, str]]:
    """Split a text like `pieces`, for changes ``(begin, end, new)`` in characters of the original, in order."""
    found: list[str | tuple[str, str]] = []
    end = 0
    for begin, until, new in spans:
        found += [original[end:begin], (original[begin:until], new)]
        end = until
    return [piece for piece in (*found, original[end:]) if piece]


def is_content_word(word: str) -> bool:
    """Return True if an attack may replace or insert a word: at least two letters, only letters, not a stop word."""
    letters = word.isalpha() or all(letter.isalpha() or unicodedata.category(letter)[0] == "M" for letter in word)
    return len(word) > 1 and letters and word.lower() not in STOP_WORDS


def others(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates other than ``word``, each once (ignoring case), in the word's case."""
    seen, found = {word.casefold()}, []
    for candidate in candidates:
        if candidate.casefold() not in seen:
            seen.add(candidate.casefold())
            found.append(in_case_of(word, candidate))
    return found


def draw_word(candidates: Sequence[str], rng: random.Random) -> str | None:
    """Draw one of the candidates; None if there are none."""
    return rng.choice(candidates) if candidates else None


def in_case_of(word: str, candidate: str) -> str:
    """Return ``candidate`` capitalised if ``word`` is, and in upper case if ``word`` is."""
    if len(word) > 1 and word.isupper():
        return candidate.upper()
    return candidate[:1].upper() + candidate[1:] if word[:1].isupper() else candidate
