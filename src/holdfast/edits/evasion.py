"""Evasion: writing that a person reads as before, and that a filter does not find.

The table `EVASIONS` holds a function of a word for each kind; `evasion_edits` gives the kinds as edits of a text.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from holdfast.edits.confusables import look_alikes
from holdfast.edits.display_order import FSI, LRE, LRI, LRO, PDF, PDI, RLI, RLO
from holdfast.edits.edit import Edit, Edited, Side, edited
from holdfast.edits.words import Words

ZERO_WIDTH = "\u200b\u200c\u200d\u2060\u00ad\ufeff"
"""Zero-width space, non-joiner, joiner, word joiner, soft hyphen, byte order mark."""

LEET: Mapping[str, str] = MappingProxyType(
    {"a": "4@", "b": "8", "e": "3", "g": "9", "i": "1!", "l": "1", "o": "0", "s": "5$", "t": "7", "z": "2"}
)
"""Digits and signs of the shape of a letter."""

EMOJI = "😀😂🙂😉😍😎🤔😢😡👍👎🙏🔥✨🎉💯🚀⭐🌟💥"
"""Emoji of one character each, with the emoji presentation as their default."""

_PAIRS = ((LRO, PDF), (LRE, PDF), (LRI, PDI), (RLI, PDI), (FSI, PDI))
_SEPARATORS = (" ", ".")
_WORD = re.compile(r"[^\W\d_]{2,}")


def zero_width(word: str, rng: random.Random) -> str | None:
    """Insert zero-width characters between letters: in each gap with probability one half, and in at least one."""
    if len(word) < 2:
        return None
    gaps = _some(range(1, len(word)), rng)
    return "".join((rng.choice(ZERO_WIDTH) if i in gaps else "") + letter for i, letter in enumerate(word))


def confusables(word: str, rng: random.Random) -> str | None:
    """Replace letters by look-alikes of Unicode's list: each with probability one half, and at least one.

    Raises:
        NotInstalled: confusable-homoglyphs is not installed.
    """
    return _replaced(word, rng, look_alikes())


def spaced_letters(word: str, rng: random.Random) -> str | None:
    """Set the letters apart, with spaces ("b a d") or with dots ("b.a.d")."""
    return rng.choice(_SEPARATORS).join(word) if len(word) > 1 else None


def bidi(word: str, rng: random.Random) -> str | None:
    """Put a part of the word between bidirectional controls that leave it displayed as before.

    None for a word with letters that are not written from left to right.
    """
    if not _is_left_to_right(word):
        return None
    begin = rng.randrange(len(word))
    end = rng.randrange(begin + 1, len(word) + 1)
    opening, closing = rng.choice(_PAIRS)
    return f"{word[:begin]}{opening}{word[begin:end]}{closing}{word[end:]}"


def bidi_reversed(word: str, rng: random.Random) -> str | None:  # noqa: ARG001  # as the others
    """Write the word backwards between RLO and PDF, which display it forwards (Boucher et al. 2022, reordering).

    None for a word with letters that are not written from left to right, with combining marks, or that reads the same
    backwards.
    """
    if not _is_left_to_right(word) or any(map(unicodedata.combining, word)) or word == word[::-1]:
        return None
    return f"{RLO}{word[::-1]}{PDF}"


def leetspeak(word: str, rng: random.Random) -> str | None:
    """Replace letters by digits and signs of a similar shape: each with probability one half, and at least one."""
    return _replaced(word, rng, LEET)


def emoji(word: str, rng: random.Random) -> str | None:
    """Insert an emoji: after the word, or between two of its letters."""
    sign = rng.choice(EMOJI)
    if len(word) < 2 or rng.random() < 0.5:
        return f"{word} {sign}"
    place = rng.randrange(1, len(word))
    return word[:place] + sign + word[place:]


Evasion = Callable[[str, random.Random], str | None]

EVASIONS: Mapping[str, Evasion] = MappingProxyType(
    {
        "zero-width": zero_width,
        "confusables": confusables,
        "spaced-letters": spaced_letters,
        "bidi": bidi,
        "bidi.reversed": bidi_reversed,
        "leetspeak": leetspeak,
        "emoji": emoji,
    }
)
"""The kinds of evasion, by name: each returns the changed word, or None for a word that it cannot change."""


def _some(places: Sequence[int], rng: random.Random) -> set[int]:
    """Return each place with probability one half, and at least one."""
    return {place for place in places if rng.random() < 0.5} or {rng.choice(places)}


def _replaced(word: str, rng: random.Random, table: Mapping[str, str]) -> str | None:
    """Replace letters by one of their substitutes; a letter without substitutes in its case has those of lower case."""
    substitutes = [table.get(letter) or table.get(letter.lower(), "") for letter in word]
    places = [i for i, found in enumerate(substitutes) if found]
    if not places:
        return None
    chosen = _some(places, rng)
    return "".join(rng.choice(substitutes[i]) if i in chosen else letter for i, letter in enumerate(word))


def _is_left_to_right(word: str) -> bool:
    return all(unicodedata.bidirectional(letter) in ("L", "EN", "NSM") for letter in word)


# --- edits of a text ---------------------------------------------------------------------------------------------


class _EvadedWords(Edit):
    """An evasion in words of two letters or more, drawn at random."""

    SIDE: ClassVar[Side] = "hold"
    LANGUAGE: ClassVar[str | None] = None

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with the evasion in a share of its words; see `Edit`."""
        places = [found.span() for found in _WORD.finditer(text)]
        wanted = max(1, round(strength * len(Words.of(text).words)))
        changes: list[tuple[int, int, str]] = []
        for begin, end in rng.sample(places, len(places)):
            if len(changes) == wanted:
                break
            new = EVASIONS[self.NAME](text[begin:end], rng)
            if new is not None:
                changes.append((begin, end, new))
        return edited(text, *changes) if changes else None


class ZeroWidth(_EvadedWords):
    """Zero-width characters between the letters of words."""

    NAME = "zero-width"
    ABOUT = "invisible characters between letters"


class Confusables(_EvadedWords):
    """Letters replaced by look-alikes of other scripts."""

    NAME = "confusables"
    ABOUT = "letters replaced by look-alikes of other scripts"


class SpacedLetters(_EvadedWords):
    """Words whose letters are set apart."""

    NAME = "spaced-letters"
    ABOUT = "letters set apart by spaces or dots"


class Bidi(_EvadedWords):
    """Bidirectional controls around parts of words, which change nothing that is displayed."""

    NAME = "bidi"
    ABOUT = "bidirectional controls that change nothing on the screen"


class BidiReversed(_EvadedWords):
    """Words written backwards between controls that display them forwards."""

    NAME = "bidi.reversed"
    ABOUT = "words written backwards and displayed forwards"


class Leetspeak(_EvadedWords):
    """Digits and signs in place of letters."""

    NAME = "leetspeak"
    ABOUT = "digits and signs in place of letters"


class Emoji(_EvadedWords):
    """Emoji beside or inside words."""

    NAME = "emoji"
    ABOUT = "emoji beside or inside words"


def evasion_edits() -> list[Edit]:
    """Return all edits of evasion, those that `holdfast.edits.normalising.normalise` undoes first."""
    return [ZeroWidth(), Confusables(), Bidi(), BidiReversed(), SpacedLetters(), Leetspeak(), Emoji()]
