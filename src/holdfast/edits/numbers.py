"""A number replaced by another of its kind: years, days, quantities, percentages, ordinals, and number words.

The new number is of like size and form (decimals, thousands' commas, round numbers), and a quantity is never 1, so that
the words around it agree as before. Numbers that belong to a name, a range, a score, a time, a list's marker or a
conversion stay.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast.edits.articles import article_of
from holdfast.edits.edit import ENGLISH, Edit, Edited, edited
from holdfast.edits.number_words import CARDINALS, ORDINALS, SCALES, is_month, ordinal_ending
from holdfast.edits.words import in_case_of

_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_WORDS = "|".join(sorted({*CARDINALS, *ORDINALS} - {"zero", "one"}, key=len, reverse=True))
_NUMBER = re.compile(
    rf"(?<![\w.,:/\\#&@*+=^~'’\u2010-\u2015\u2212-])(?:(?P<digits>{_DIGITS})(?P<ending>st|nd|rd|th|s)?|(?P<word>{_WORDS}))"
    r"(?![\w/\\#&@*+=^~°'’\u2010-\u2015\u2212]|[.,:]\d|-(?:\d|and|to|thirds|fifths|quarters|[^\W\d_]+(?:teen|ty)\b))",
    re.IGNORECASE,
)
_WORD_BEFORE = re.compile(r"([^\W\d_][\w.'’]*)[\s(]*[$£€]?$")
_WORD_AFTER = re.compile(r"[\s-]([^\W\d_]+)")
_NUMBER_NEAR = re.compile(rf"(?:{_DIGITS}|\b(?:{'|'.join(CARDINALS)})\b)", re.IGNORECASE)
_NUMERAL = re.compile(rf"\d[\d.,]*|\b(?:{'|'.join(CARDINALS)})\b", re.IGNORECASE)
_CONVERSION = re.compile(
    rf"(?:{_NUMERAL.pattern})(?:[^()\d]{{0,25}}\([^()\d]{{0,12}}\d[^()]*\)|[^()\d]{{0,12}}/ ?\d)",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:1[0-9]|20)\d\d\b")

_LATEST_YEAR = 2024
_MOST_YEARS = 25
_MOST_DIGITS = 15  # and a point; a longer number has no exact float, or none at all
_RANGE_WORDS = frozenset("to and or through by".split())
# Words with a capital that stand before a number without making a name with it: those of a sentence's begin.
_OPENINGS = frozenset(
    """
    in on at by from since until after before during between about around over under nearly almost some only more less
    the a an of with for to and but or as all its his her their our these those this that another when while there
    they he she it we at least most approximately roughly up within per additionally both another see is are was were
    has have had age aged total than season episode episodes week weeks day days grade stage year years
    """.split()
)
# Of an ordinal, words behind it with which it is a fixed phrase or no ordinal.
_FIXED = frozenset(
    """
    half halves of all and or to person persons lady world language aid hand class name names cousin cousins degree ever
    glance sight baseman base instance lieutenant world nations choice string team teams order generation
    floor gear few quarter son amendment home eleven
    """.split()
)
_DETERMINERS = frozenset("the his her their its a".split())
_HOUR_BEHIND = re.compile(r"\s(?:[ap]\.?m\b|o['’]clock)", re.IGNORECASE)
_BEFORE_YEARS = frozenset("the in since of by until till from".split())
_NO_PLURALS = ("was", "is", "has", "as", "his", "its", "series")


class _Found(NamedTuple):
    """A number in a text: its place, and the function that draws another in its form (None: there is none)."""

    begin: int
    end: int
    draw: Callable[[random.Random], str | None]


class Number(Edit):
    """A number replaced by another."""

    NAME = "number"
    SIDE = "move"
    LANGUAGE = ENGLISH
    ABOUT = "a number or quantity changed"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """See `Edit`."""
        found = list(_numbers(text))
        rng.shuffle(found)
        for number in found:
            new = number.draw(rng)
            made = None if new is None else _replaced(text, number, new)
            if made is not None:
                return made
        return None


def number_edits() -> list[Number]:
    """Return the edit `Number`."""
    return [Number()]


def _replaced(text: str, number: _Found, new: str) -> Edited | None:
    changes = [(number.begin, number.end, new)]
    article = re.search(r"\b(an?) [$£€]?$", text[: number.begin], re.IGNORECASE)
    if article is not None and (right := article_of(new)) is not None and right != article[1].lower():
        changes.append((*article.span(1), in_case_of(article[1][:1], right)))
    return edited(text, *changes)


def _numbers(text: str) -> Iterator[_Found]:
    """Yield the numbers that can be replaced."""
    conversions = list(_conversions(text))
    for match in _NUMBER.finditer(text):
        around = _Around(text, match)
        if any(begin <= match.start() < end for begin, end in conversions) or around.is_name or around.is_range:
            continue
        draw = _drawing(match, around)
        if draw is not None:
            yield _Found(match.start(), match.end(), draw)


def _conversions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of quantities that are told in two units, from the left.

    They are looked for at the first figure of each number alone, since one that begins at a later figure is also one
    from the first: at every figure, a number of thousands of figures would take their square.
    """
    begin = 0
    while (number := _NUMERAL.search(text, begin)) is not None:
        found = _CONVERSION.match(text, number.start())
        begin = number.end() if found is None else found.end()
        if found is not None:
            yield found.span()


class _Around:
    """The words around a number."""

    def __init__(self, text: str, match: re.Match[str]) -> None:
        self.text, self.begin, self.end = text, match.start(), match.end()
        before = _WORD_BEFORE.search(text[max(0, self.begin - 40) : self.begin])
        after = _WORD_AFTER.match(text, self.end)
        self.before, self.after = (found[1] if found else "" for found in (before, after))

    @property
    def is_name(self) -> bool:
        """Return True if the number may belong to a name, or to the marker of a list or note."""
        left, right = self.text[self.begin - 1 : self.begin], self.text[self.end : self.end + 1]
        if (left in ("(", "[") and right in (")", "]") and not _is_year(self)) or left in ('"', "\u201c"):
            return True
        if self.begin == 0 and right in (".", ")", ""):
            return True
        if self.after[:1].isupper() and not is_month(self.after):
            return True
        named = self.before[:1].isupper() and self.before.lower().rstrip(".") not in _OPENINGS
        return named and not is_month(self.before) and not _is_year(self)

    @property
    def is_day(self) -> bool:
        """Return True for a day beside its month: 5 May, May 5, 5 of May."""
        of = re.match(r" of ([^\W\d_]+)", self.text[self.end :])
        return is_month(self.before) or is_month(self.after) or (of is not None and is_month(of[1]))

    @property
    def is_range(self) -> bool:
        """Return True for one end of a range: "from 5 to 10", "two or three"."""
        if self.after in _RANGE_WORDS:
            behind = self.text[self.end + 1 + len(self.after) :].lstrip()
            if _NUMBER_NEAR.match(behind.lstrip("$£€")) is not None:
                return True
        if self.before in _RANGE_WORDS:
            ahead = self.text[: self.begin].rstrip("$£€ ").removesuffix(self.before).rstrip()
            return re.search(r"(?:\d|%|\b(?:" + "|".join(CARDINALS) + r"))$", ahead, re.IGNORECASE) is not None
        return self.before in ("between", "from", "vs", "minus", "plus", "times")


def _is_year(around: _Around) -> bool:
    number = around.text[around.begin : around.end]
    if not _YEAR.fullmatch(number):
        return False
    after = around.after
    plural = after.islower() and after.endswith("s") and not after.endswith("ous") and after not in _NO_PLURALS
    # "the 1977 elections": also a quantity here has another in its place.
    plural = plural and around.before.lower() not in _BEFORE_YEARS
    return not plural and after not in ("km", "m", "ft", "metre", "meter", "people", "men", "percent")


def _drawing(match: re.Match[str], around: _Around) -> Callable[[random.Random], str | None] | None:
    """Return the function that draws another number for a match; None if it is not to be replaced."""
    if match["word"]:
        return _drawing_of_word(match["word"], around)
    digits, ending = match["digits"], (match["ending"] or "").lower()
    plain = digits.replace(",", "")
    if len(plain) > _MOST_DIGITS:
        return None
    if ending == "s":
        return lambda rng: _decade(plain, rng) if re.fullmatch(r"(?:1[5-9]|20)\d0", digits) else None
    if ending:
        return lambda rng: _ordinal(digits, around, rng)
    if _is_year(around):
        others = [int(year) for year in _YEAR.findall(around.text)]
        return lambda rng: _year(int(digits), others, rng)
    if around.text[around.begin - 1 : around.begin].isalnum() or around.text[around.end : around.end + 1].isalpha():
        return None
    if "." not in plain and 1 <= int(plain) <= 31 and around.is_day:
        return lambda rng: _other(range(1, 29), int(plain), rng)
    if _HOUR_BEHIND.match(around.text, around.end):
        return lambda rng: _other(range(1, 13), int(plain), rng) if plain.isdigit() else None
    if float(plain) in (0.0, 1.0) or plain.startswith("00") or (plain[0] == "0" and "." not in plain):
        return None
    return lambda rng: _quantity(digits, around, rng)


# --- drawing -------------------------------------------------------------------------------------------------------


def _other(values: Sequence[int], value: int, rng: random.Random) -> str | None:
    others = [other for other in values if other != value]
    return str(rng.choice(others)) if others else None


def _year(year: int, others: Sequence[int], rng: random.Random) -> str | None:
    """Draw a year at most 25 years off, between the same other years of the text."""
    low = max([other for other in others if other < year], default=year - _MOST_YEARS - 1)
    high = min([other for other in others if other > year], default=max(_LATEST_YEAR, year) + 1)
    first, last = max(low + 1, year - _MOST_YEARS), min(high - 1, year + _MOST_YEARS)
    return _other(range(first, last + 1), year, rng) if others.count(year) == 1 else None


def _decade(year: str, rng: random.Random) -> str | None:
    new = _other(range(max(1500, int(year) - 40), min(2010, int(year) + 40) + 1, 10), int(year), rng)
    return None if new is None else f"{new}s"


def _ordinal(digits: str, around: _Around, rng: random.Random) -> str | None:
    if not digits.isdigit() or around.after.lower() in _FIXED:
        return None
    value = int(digits)
    top = 20 if around.after.lower() in ("century", "centuries") else 30
    if value > top:
        return None
    new = _other(range(max(1, value - 5), min(top, value + 5) + 1), value, rng)
    return None if new is None else new + ordinal_ending(int(new))


def _quantity(digits: str, around: _Around, rng: random.Random) -> str | None:
    """Draw a number of like size and form: decimals, commas, zeros at its end."""
    plain = digits.replace(",", "")
    decimals = len(plain.partition(".")[2])
    zeros = len(plain) - len(plain.rstrip("0")) if not decimals else 0
    value = float(plain)
    percent = around.text[around.end : around.end + 1] == "%" or around.after.lower() in ("percent", "per")
    for _ in range(8):
        factor = rng.choice((rng.uniform(0.3, 0.75), rng.uniform(1.35, 2.5)))
        step = 10.0**zeros if zeros else 10.0**-decimals
        new = round(max(step if decimals else 2.0, value * factor) / step) * step
        if new == value or new in (0.0, 1.0) or (percent and value <= 100 < new):
            continue
        made = f"{new:,.{decimals}f}" if "," in digits else f"{new:.{decimals}f}"
        if len(made.partition(".")[0].replace(",", "")) <= 3 or "," in digits or "," not in made:
            return made
    return None


def _drawing_of_word(word: str, around: _Around) -> Callable[[random.Random], str | None] | None:
    lower, after, before = word.lower(), around.after.lower(), around.before.lower()
    if lower in ORDINALS:
        if before not in _DETERMINERS or not after or after in _FIXED or after in CARDINALS or word[0].isupper():
            return None
        if around.text[around.end : around.end + 1] == "-":
            return None
        # "A first" is often no count.
        choices = ORDINALS[1:6] if before == "a" else ORDINALS[:6]
        return lambda rng: rng.choice([other for other in choices if other != lower])
    hyphen = around.text[around.end : around.end + 1] == "-"
    if not after or after in ("or", "and", "to", "by", "hundredths") or before in ("or", "one", "no"):
        return None
    value = CARDINALS[lower]
    in_tens = CARDINALS.get(before, 0) >= 20 or (value >= 20 and 0 < CARDINALS.get(after, 0) < 10)  # "thirty five"
    if in_tens or (hyphen and after in CARDINALS):
        return None
    like = [other for other, size in CARDINALS.items() if (2 <= size <= 12) == (value <= 12) and size > 1]
    if after in SCALES:
        like = [other for other in like if CARDINALS[other] <= 12]
    like = [other for other in like if other != lower]
    return (lambda rng: in_case_of(word, rng.choice(like))) if like else None  # none for "hundred million"
