"""The probability that people type a word as another string: the rates of `typing_rates`, read backwards."""

from __future__ import annotations

import math

from holdfast.edits.typing_alignment import Operation, is_near, operations
from holdfast.edits.typing_errors import KEYBOARD
from holdfast.edits.typing_rates import (
    JOIN,
    MISSPELLING,
    NEAR,
    SLIP,
    SPLIT,
    TypingRates,
    length_class,
    typing_rates,
)

_FLOOR = 0.002
"""Share of what the table lacks: rare, not impossible."""
_ANYWHERE = 0.05
"""Share of the operations that may be at any place of a word."""


class TypingLikelihood:
    """The probability of a wrongly typed word, given the right one and that it was typed wrongly.

    A wrong word has one shortest edit path here, so that the probability is a lower bound; ratios of candidates matter.
    """

    def __init__(self, rates: TypingRates | None = None) -> None:
        self._rates = rates or typing_rates()
        mixture = self._rates.shares("mixture", "")
        self._mixture = {kind: mixture[kind] for kind in (MISSPELLING, SLIP)}

    def log(self, word: str, typed: str) -> float:
        """Return ln P(typed | word); both in lower case, and different."""
        path = operations(word, typed)
        return math.log(sum(share * self._of_kind(kind, word, path) for kind, share in self._mixture.items()))

    def log_split(self, word: str) -> float:
        """Return ln P(a blank at one place | word)."""
        return self._log_apart(SPLIT) - math.log(max(1, len(word) - 1))

    def log_join(self) -> float:
        """Return ln P(no blank after a word)."""
        return self._log_apart(JOIN)

    def _log_apart(self, operation: str) -> float:
        return math.log(self._mixture[SLIP] * self._rates.shares(f"{SLIP}/operation", "")[operation])

    def _of_kind(self, kind: str, word: str, path: list[Operation]) -> float:
        count = self._rates.shares(f"{kind}/count", length_class(word)).get(str(len(path)), _FLOOR)
        return count * math.prod(self._of_operation(kind, word, operation) for operation in path)

    def _of_operation(self, kind: str, word: str, operation: Operation) -> float:
        shares = self._rates.shares(f"{kind}/operation", length_class(word))
        shares = shares or self._rates.shares(f"{kind}/operation", "")
        place = self._place(kind, word, operation)
        found = shares.get(operation.name, _FLOOR) * place * self._letter(kind, word, operation)
        if operation.name == "insert" and NEAR in shares and is_near(word, operation):
            found += shares[NEAR] * place / 5  # a key has about five neighbours
        return max(found, _FLOOR * _FLOOR)

    def _place(self, kind: str, word: str, operation: Operation) -> float:
        """Return the share of the operation's place among all where it may happen."""
        weights, index = self._rates.place_weights(kind, operation.name, word), max(operation.at, 0)
        if operation.name == "single":  # of two equal letters, the path names either
            index -= word[index] != word[index + 1 : index + 2]
        elif operation.name == "double":  # the added letter may come before the one that it doubles
            index += word[index] != operation.letter
        return (1.0 - _ANYWHERE) * weights[index] / (sum(weights) or 1.0) + _ANYWHERE / len(word)

    def _letter(self, kind: str, word: str, operation: Operation) -> float:
        if operation.name not in ("substitute", "insert"):
            return 1.0
        letter, end = word[max(operation.at, 0)], " last" if operation.at == len(word) - 1 else ""
        if kind == SLIP and operation.name == "substitute":
            near = KEYBOARD.get(letter, "")
            return 1.0 / len(near) if operation.letter in near else _FLOOR
        table = self._rates.shares(f"{MISSPELLING}/{operation.name}", letter + end)
        return table.get(operation.letter, _FLOOR)
