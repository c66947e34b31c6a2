"""Verdicts of items with intervals: too few texts where the interval spans two verdicts, and how many would tell."""

from __future__ import annotations

import math
from typing import Any

import pytest

from holdfast.audit.item_rows import item
from holdfast.audit.verdicts import VERDICTS, Measure, judged, nearer, quality, rate


@pytest.mark.parametrize(
    ("interval", "verdict", "between"),
    [
        ((0.0, 0.0, 9.9), "holds", None),
        ((0.0, 0.0, 30.8), "too few", ("holds", "bends")),
        ((30.0, 12.0, 49.0), "bends", None),
        ((33.3, 0.0, 66.7), "too few", ("holds", "breaks")),
        ((55.0, 45.0, 65.0), "too few", ("bends", "breaks")),
        ((80.0, 51.0, 95.0), "breaks", None),
        # So near to the threshold that it does not matter: within 4 points, a tenth of 50 - 10.
        ((10.2, 6.1, 13.9), "bends", None),
        ((9.8, 6.1, 13.9), "holds", None),
        ((9.8, 5.9, 13.9), "too few", ("holds", "bends")),
    ],
)
def test_an_interval_of_two_verdicts_has_too_few_texts(
    interval: tuple[float, float, float], verdict: str, between: tuple[str, str] | None
) -> None:
    found = judged(100, rate(*interval))
    assert (found.verdict, found.between) == (verdict, between)
    assert found.verdict in VERDICTS


def test_very_few_texts_have_no_verdict_whatever_their_interval() -> None:
    harm = Measure(9.0, 9.0, 9.0, holds=1.0, breaks=2.0)
    assert (judged(4, harm).verdict, judged(4, harm).needed, judged(5, harm).verdict) == ("too few", 5, "breaks")


def test_higher_is_better_for_probabilities_and_correlations() -> None:
    assert judged(50, nearer(0.95, 0.91, 0.99)).verdict == "holds"
    assert judged(50, nearer(0.87, 0.81, 0.93)).between == ("holds", "bends")
    assert judged(50, nearer(0.55, 0.48, 0.6)).verdict == "breaks", "0.6 itself breaks"
    assert judged(50, nearer(0.6, 0.6, 0.6)).verdict == "breaks"
    assert judged(50, quality(75.0, 75.0, 78.0)).verdict == "holds"
    assert judged(50, quality(74.0, 70.0, 78.0)).between == ("holds", "bends")


def test_of_two_measures_the_worse_one_decides() -> None:
    sure = Measure(3.0, 2.5, 3.5, 1.0, 2.0)
    unsure = rate(5.0, 0.0, 20.0)
    assert judged(20, sure, unsure).verdict == "breaks", "whatever the other is"
    found = judged(20, Measure(0.5, 0.4, 0.6, 1.0, 2.0), unsure)
    assert (found.verdict, found.of_value, found.between) == ("too few", "holds", ("holds", "bends"))


def test_the_number_that_would_tell() -> None:
    # The half-width is 12 and must be 8; it shrinks with the root of the number.
    assert judged(100, rate(18.0, 6.0, 30.0)).needed == math.ceil(100 * (12 / 8) ** 2)
    # At the threshold no interval is on one side of it; one within 4 points will do.
    assert judged(100, rate(10.0, 2.0, 18.0)).needed == math.ceil(100 * (8 / 4) ** 2)
    assert judged(100, rate(30.0, 20.0, 40.0)).needed == 0


def row(*interval: float, n: int) -> dict[str, Any]:
    metrics = {"success_rate": interval[0]}
    return item("audit-x", "all", n, metrics, judged(n, rate(*interval)), "told", headline="success_rate").row


def test_a_row_says_between_which_verdicts_it_is_and_how_many_texts_would_tell() -> None:
    found = row(18.0, 6.0, 30.0, n=1234)
    assert (found["verdict"], found["n"], found["between"]) == ("too few", 1234, ["holds", "bends"])
    assert (found["value_verdict"], found["needed"]) == ("bends", 2800)
    assert found["told"] == "told; n = 1,234 is too few to tell whether it holds or bends (about 2,800 would)"
    assert row(30.0, 20.0, 40.0, n=9).keys().isdisjoint(("between", "value_verdict", "needed"))
