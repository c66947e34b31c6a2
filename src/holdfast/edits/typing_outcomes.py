"""The probabilities of the wrong words that one typing error makes of a right one, by the rates of `typing_rates`."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.edits.typing_errors import KEYBOARD
from holdfast.edits.typing_rates import JOIN, MISSPELLING, NEAR, SPLIT, TypingRates, length_class

_WITH_LETTER = ("substitute", "insert", NEAR)


def outcomes(rates: TypingRates, kind: str, word: str, least: float = 0.0) -> dict[str, float]:
    """Return the probability of each wrong word, given the right one and that there is an error of this kind.

    Errors of several operations and those that touch a blank are left out, so that the sum is below 1.

    Args:
        rates: the rates.
        kind: ``MISSPELLING`` or ``SLIP``.
        word: the right word, in lower case.
        least: outcomes of one operation at one place that are less probable are left out.
    """
    found: dict[str, float] = {}
    key = length_class(word)
    one = rates.shares(f"{kind}/count", key).get("1", 0.0)
    shares = rates.shares(f"{kind}/operation", key) or rates.shares(f"{kind}/operation", "")
    for operation, share in shares.items():
        if operation in (SPLIT, JOIN) or one * share < least:
            continue
        places = rates.place_weights(kind, operation, word)
        total = sum(places) or 1.0
        for index, place in enumerate(places):
            here = one * share * place / total
            if place and here >= least:
                for new, part in _at(rates, kind, operation, word, index):
                    if new != word and here * part >= least:
                        found[new] = found.get(new, 0.0) + here * part
    return found


def _at(rates: TypingRates, kind: str, operation: str, word: str, index: int) -> Iterator[tuple[str, float]]:
    """Yield what an operation makes of a word at one letter, and the share of each."""
    before, letter, rest = word[:index], word[index], word[index + 1 :]
    if operation in ("delete", "single"):
        yield before + rest, 1.0
    elif operation == "double":
        yield before + letter + letter + rest, 1.0
    elif operation == "swap":
        yield before + rest[:1] + letter + rest[1:], 1.0
    elif operation in _WITH_LETTER:
        end = "" if rest else " last"
        source = MISSPELLING if operation == "insert" else kind
        choices = rates.shares(f"{source}/{operation}", letter + end) or dict.fromkeys(KEYBOARD.get(letter, ""), 1.0)
        total = sum(choices.values())
        for new, share in choices.items():
            if operation == "substitute":
                yield before + new + rest, share / total
            elif operation == NEAR:  # a key hit beside the right one, before it or after it
                yield before + new + letter + rest, share / total / 2
                yield before + letter + new + rest, share / total / 2
            else:
                yield before + letter + new + rest, share / total
