"""Correction of p-values for the number of comparisons (Holm 1979, *A simple sequentially rejective procedure*)."""

from __future__ import annotations

from collections.abc import Sequence


def holm(values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given.

    The smallest of m p-values is multiplied by m, the next by m − 1, and so on; none is smaller than one before it or
    larger than 1. An adjusted value below 5 % belongs to a set of findings of which, with a probability of 95 %, none
    is false, however the comparisons depend on one another.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted = [1.0] * len(values)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - place) * values[index]))
        adjusted[index] = largest
    return adjusted
