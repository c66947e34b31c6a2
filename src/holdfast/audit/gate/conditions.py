"""The grammar of conditions: ``ITEM.METRIC < NUMBER`` and ``ITEM.METRIC worse than baseline, p < NUMBER``.

A condition says when the gate *fails*. It is read by a regular expression for each part, and never evaluated as code.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from holdfast.errors import UserError

P = 0.01
"""The p-value below which a difference to the baseline counts, if a condition names none."""

OPERATORS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)

_BLANK = re.compile(r"\s*")
_NAME = re.compile(r"(?:[^\s<>=!,]|(?<=dim)=(?=\d))+")  # a form of vectors, such as dim=256, is part of a name
_OPERATOR = re.compile(r"[<>=!]+")
_NUMBER = re.compile(r"[^\s,<>=]+")
_WORSE = ("worse", "than", "baseline")
_FORMS = "ITEM.METRIC < NUMBER (or <=, >, >=), or ITEM.METRIC worse than baseline, p < NUMBER"


@dataclass(frozen=True)
class Condition:
    """A condition under which the gate fails.

    Attributes:
        text: the condition as it was written.
        item: the item, as the card prints it.
        metric: the metric.
        column: the column of the metric in the text, from 1.
        operator: one of `OPERATORS`; None: "worse than baseline".
        number: the threshold; for "worse than baseline", that of the p-value.
    """

    text: str
    item: str
    metric: str
    column: int
    operator: str | None
    number: float

    @property
    def against_baseline(self) -> bool:
        """True for "worse than baseline"."""
        return self.operator is None

    def holds(self, value: float) -> bool:
        """Return True if a value meets the condition, so that the gate fails."""
        assert self.operator is not None
        return OPERATORS[self.operator](value, self.number)


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Raises:
        UserError: the text is not a condition; the message has the column of the fault and what is expected there.
    """
    reader = _Reader(text)
    name, column = reader.take(_NAME, "ITEM.METRIC, as in typos.stability")
    item, dot, metric = name.rpartition(".")
    if not (item and dot and metric):
        raise reader.fault(column, f"{name!r} is not ITEM.METRIC, as in typos.stability")
    if reader.peek(_OPERATOR):
        symbol, place = reader.take(_OPERATOR, "<")
        if symbol not in OPERATORS:
            raise reader.fault(place, f"{symbol!r} is not one of {', '.join(OPERATORS)}")
        found: str | None = symbol
        number = reader.number()
    else:
        found, number = None, _worse_than_baseline(reader)
    reader.end()
    return Condition(text.strip(), item, metric, column + len(item) + 1, found, number)


def _worse_than_baseline(reader: _Reader) -> float:
    """Read "worse than baseline", and its p-value if there is one."""
    for word in _WORSE:
        found, place = reader.take(_NAME, f"{', '.join(OPERATORS)} or 'worse than baseline'")
        if found != word:
            raise reader.fault(place, f"{found!r} where {word!r} of 'worse than baseline' is expected")
    if reader.at_end():
        return P
    reader.take(re.compile(","), "', p < NUMBER' or the end")
    name, place = reader.take(_NAME, "p < NUMBER")
    if name != "p":
        raise reader.fault(place, f"{name!r} where 'p' is expected")
    symbol, place = reader.take(_OPERATOR, "<")
    if symbol != "<":
        raise reader.fault(place, f"{symbol!r} where '<' is expected")
    place = reader.place()
    p = reader.number()
    if not 0.0 < p < 1.0:
        raise reader.fault(place, f"p < {p:g}: a p-value is between 0 and 1")
    return p


class _Reader:
    """A text that is read part by part."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._skip()

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def place(self) -> int:
        """Return the column of the next part, from 1."""
        return self._at + 1

    def at_end(self) -> bool:
        """Return True if nothing is left."""
        return self._at == len(self._text)

    def peek(self, pattern: re.Pattern[str]) -> bool:
        """Return True if the next part has a pattern."""
        return pattern.match(self._text, self._at) is not None

    def take(self, pattern: re.Pattern[str], expected: str) -> tuple[str, int]:
        """Return the next part and its column.

        Raises:
            UserError: it does not have the pattern.
        """
        found, place = pattern.match(self._text, self._at), self.place()
        if found is None:
            here = "the end" if self.at_end() else repr(self._text[self._at])
            raise self.fault(place, f"{here} where {expected} is expected")
        self._at = found.end()
        self._skip()
        return found.group(), place

    def number(self) -> float:
        """Return the next part as a finite number."""
        word, place = self.take(_NUMBER, "a number")
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or "_" in word:
            raise self.fault(place, f"{word!r} is not a number")
        return value

    def end(self) -> None:
        """Check that nothing is left."""
        if not self.at_end():
            raise self.fault(self.place(), f"{self._text[self._at :]!r} after the end of the condition")

    def fault(self, column: int, message: str) -> UserError:
        """Return the error for a column."""
        return UserError(f"condition {self._text!r}, column {column}: {message}; a condition is {_FORMS}")
