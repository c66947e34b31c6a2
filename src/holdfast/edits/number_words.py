"""English numbers as words: cardinals and ordinals, months, and words around numbers."""

from __future__ import annotations

SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()
CARDINALS = {word: value for value, word in enumerate(SMALL)} | {
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
"""Values of the number words that are one word, lower case."""

ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
"""The ordinals from the first on."""

SCALES = frozenset("hundred thousand million billion trillion dozen".split())
MONTHS = tuple("January February March April May June July August September October November December".split())
_LOWER_MONTHS = frozenset(month.lower() for month in MONTHS) | {"jan", "feb", "aug", "sept", "sep", "oct", "nov", "dec"}


def is_month(word: str) -> bool:
    """Return True for the name of a month, or a usual abbreviation, in any case."""
    return word.lower() in _LOWER_MONTHS


def ordinal_ending(value: int) -> str:
    """Return st, nd, rd or th for a number in digits."""
    if value % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
