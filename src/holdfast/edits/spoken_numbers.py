"""Numbers of an English text as they are spoken, with their sign, unit, currency or time of day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.edits.edit import Change

_LONGEST = 15  # digits of a number that is read as one
_CURRENCIES: Mapping[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
}
_SIZES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
"""Sizes that are written beside an amount of money: $20m."""
_DEGREES = {"": "degrees", "C": "degrees celsius", "F": "degrees fahrenheit"}

# A number is matched whole or not at all: the lookahead with its back reference does not give digits back. It is no
# part of a word, and of no version or address (2.4.1).
_NUMBER = re.compile(
    r"""
    (?P<minus>(?<![^\s(])[-−](?=[\d.$£€]))?
    (?:(?P<currency>[$£€])\s?|(?<![^\W_])(?<!\d\.))
    (?=(?P<number>
        (?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?![\d:])
        | \d{1,3}(?:,\d{3})+(?!,\d)(?:\.\d+)? | \d{1,2}(?:,\d\d)+,\d{3}(?!,\d)(?:\.\d+)? | \d+(?:\.\d+)? | \.\d+
    ))(?P=number)(?!\.\d)
    (?:\s?(?P<percent>%) | \s?(?P<after>[£€]) | \s?°\s?(?P<degrees>[CF]\b|)
       | (?:(?P<ordinal>st|nd|rd|th) | \s(?P<size>(?i:thousand|million|billion|trillion)) | (?P<unit>[^\W\d_]{1,5}))?
         (?![^\W_]))
    """,
    re.VERBOSE,
)


def spoken_numbers(text: str) -> Iterator[Change]:
    """Yield the numbers of a text with their words; those that have no plain reading are left out (1980s, 2.4.1)."""
    for match in _NUMBER.finditer(text):
        spoken = _spoken(match)
        if spoken is not None:
            before, after = text[: match.start()][-1:], text[match.end() :][:1]
            yield Change(*match.span(), " " * before.isalnum() + spoken + " " * after.isalnum())


def _spoken(match: re.Match[str]) -> str | None:
    found = match.groupdict()
    number, unit = found["number"], found["unit"] or ""
    currency = found["currency"] or found["after"]
    if found["hour"] is not None:
        return None if currency or found["minus"] else _time(found["hour"], found["minute"], unit)
    digits = number.replace(",", "")
    if len(digits) > _LONGEST or not digits.isascii() or (unit == "s" and digits.isdigit()):
        return None
    if len(digits) > 1 and digits.isdigit() and digits[0] == "0":  # of a telephone number, an address or a code
        return None
    size = (found["size"] or "").lower()
    if currency:
        if unit and unit.lower() not in _SIZES:
            return None
        words = _money(digits, size or _SIZES.get(unit.lower(), ""), _CURRENCIES[currency])
    else:
        alone = not (unit or size or found["percent"] or found["minus"] or found["degrees"] is not None)
        is_year = alone and len(number) == 4 and number.isdigit() and 1100 <= int(number) <= 2099
        kind = "ordinal" if found["ordinal"] and "." not in digits else "year" if is_year else "cardinal"
        what = "percent" if found["percent"] else _DEGREES.get(found["degrees"], "")
        words = " ".join(filter(None, (_words(digits, kind), size, unit.lower(), what)))
    return f"minus {words}" if found["minus"] else words


def _time(hour: str, minute: str, unit: str) -> str:
    minutes = "" if int(minute) == 0 else f"oh {_words(minute)}" if int(minute) < 10 else _words(minute)
    return " ".join(filter(None, (_words(hour), minutes or ("" if unit else "o'clock"), unit.lower())))


def _money(digits: str, size: str, names: tuple[str, str, str, str]) -> str:
    one, many, cent, cents = names
    whole, _, part = digits.partition(".")
    if size or len(part) != 2:
        return " ".join(filter(None, (_words(digits), size, one if digits == "1" and not size else many)))
    amounts = [(int(whole or 0), one, many), (int(part), cent, cents)]
    parts = [
        f"{_words(str(amount))} {single if amount == 1 else several}" for amount, single, several in amounts if amount
    ]
    return " and ".join(parts) or f"{_words('0')} {many}"


def _words(digits: str, kind: str = "cardinal") -> str:
    from num2words import num2words

    value: Any = float(digits) if "." in digits else int(digits)
    return " ".join(re.sub(r"[^\w\s]", " ", num2words(value, to=kind).lower()).split())
