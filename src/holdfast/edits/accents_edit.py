"""Accents left out: dropped (*naïve*: *naive*) or transliterated (*Müller*: *Mueller*)."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Mapping
from typing import ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import Change, Edit, Edited, edited

TRANSLITERATED: Mapping[str, str] = {
    "ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae", "œ": "oe", "ß": "ss", "þ": "th", "ð": "d",
    "đ": "d", "ł": "l", "ı": "i", "ħ": "h",
}  # fmt: skip
"""Lower-case letters, and their spelling without marks where people do not merely drop these."""

_WITHOUT: Mapping[str, str] = {"ø": "o", "å": "a"}
_SCRIPTS = ("LATIN", "GREEK")
_TOKEN = re.compile(r"\S+")


class Accents(Edit):
    """Write words without accents: the marks of Latin and Greek letters are dropped, or the letters transliterated.

    Marks of other scripts, where they are vowels or make another letter, stay. The strength is the share of all words;
    at 1 no accent is left.
    """

    NAME: ClassVar = "accents"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None
    ABOUT: ClassVar = "accents left out"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with accents left out in a share ``strength`` of its words; None if it has no accents."""
        tokens = list(_TOKEN.finditer(text))
        weights = [float(without_accents(token.group()) != token.group()) for token in tokens]
        changes = []
        for place in drawn_order(weights, rng)[: number_to_change(strength, len(tokens))]:
            old = tokens[place].group()
            made = without_accents(old, transliterate=rng.random() < 0.5)
            changes.append(Change(*tokens[place].span(), made.upper() if len(old) > 1 and old.isupper() else made))
        return edited(text, *changes)


def without_accents(text: str, *, transliterate: bool = False) -> str:
    """Return the text without accents on Latin and Greek letters, composed or not.

    Args:
        text: any text.
        transliterate: write letters with an umlaut or ring as two letters (`TRANSLITERATED`).
    """
    return "".join(_plain(letter, transliterate) for letter in _letters(text))


def _letters(text: str) -> list[str]:
    """Split a text into letters with their combining marks, composed where that is possible."""
    return [unicodedata.normalize("NFC", part) if len(part) > 1 else part for part in _MARKED.findall(text)]


_MARKED = re.compile(r"(?s).[\u0300-\u036f]*")


def _plain(letter: str, transliterate: bool) -> str:
    lower = letter.lower()
    written = TRANSLITERATED.get(lower) if transliterate or lower not in _WITHOUT else _WITHOUT[lower]
    if written is not None and (transliterate or unicodedata.normalize("NFD", lower) == lower):
        return written if letter == lower else written[0].upper() + written[1:]
    base = unicodedata.normalize("NFD", letter)[:1]
    return base if unicodedata.name(base, "").startswith(_SCRIPTS) else letter
