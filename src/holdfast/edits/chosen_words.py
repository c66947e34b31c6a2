"""The words of a text that an edit changes: how many, and in which order they are tried."""

from __future__ import annotations

import random
from collections.abc import Sequence


def number_to_change(strength: float, words: int) -> int:
    """Return the number of words to change: ``strength`` of all, rounded, at least one.

    Raises:
        ValueError: the strength is not between 0 and 1.
    """
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"strength must be between 0 and 1, not {strength}")
    return max(1, int(strength * words + 0.5))


def drawn_order(weights: Sequence[float], rng: random.Random) -> list[int]:
    """Return the places with a positive weight in random order, each drawn by its weight among those that are left."""
    keys = {place: rng.expovariate(1.0) / weight for place, weight in enumerate(weights) if weight > 0.0}
    return sorted(keys, key=keys.__getitem__)
