"""Probabilities of wrong words: equal to the frequencies with which the rates draw them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from holdfast.edits.typing_outcomes import outcomes
from holdfast.edits.typing_rates import MISSPELLING, SLIP, typing_rates


@pytest.mark.parametrize("kind", [MISSPELLING, SLIP])
def test_they_are_the_shares_of_drawn_words(kind: str) -> None:
    rates, rng, draws = typing_rates(), random.Random(1), 4000
    drawn: Counter[str] = Counter()
    for _ in range(draws):
        operations = rates.operations(kind, "letter", rng)
        if len(operations) == 1 and operations[0] not in ("split", "join"):
            drawn[rates.mistyped(kind, "letter", operations, rng) or ""] += 1
    found = outcomes(rates, kind, "letter")
    assert 0.7 < sum(found.values()) <= 1.0
    for typed, count in drawn.most_common(8):
        assert found[typed] == pytest.approx(count / draws, abs=4 * (count**0.5 + 1) / draws), typed


def test_rare_ones_are_left_out() -> None:
    rates = typing_rates()
    every, likely = outcomes(rates, SLIP, "letter"), outcomes(rates, SLIP, "letter", 0.01)
    assert 0 < len(likely) < len(every)
    assert all(share <= every[typed] + 1e-12 for typed, share in likely.items())
    assert max(every, key=every.__getitem__) in likely
