"""Samples of a task's rows, drawn with a fixed seed, for a quick look: their scores are not scores of the task."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.data.registry import Labelled, ScoredPairs

SEED = 0
"""Seed of the draw: the rows are the same for every model."""

_Value = TypeVar("_Value")


def sample_pairs(pairs: ScoredPairs, limit: int) -> ScoredPairs:
    """Return at most ``limit`` of the pairs, in their order; ``sha256`` remains the hash of all pairs."""
    if limit >= len(pairs.scores):
        return pairs
    rows = sorted(random.Random(SEED).sample(range(len(pairs.scores)), limit))
    return replace(
        pairs,
        sentences1=_chosen(pairs.sentences1, rows),
        sentences2=_chosen(pairs.sentences2, rows),
        scores=_chosen(pairs.scores, rows),
        subsets=_chosen(pairs.subsets, rows),
    )


def sample_labelled(part: Labelled, limit: int, *, least: int = 1) -> Labelled:
    """Return about ``limit`` of the rows, in their order: a share of each class, and at least ``least`` rows of it.

    Args:
        part: the rows; ``sha256`` remains the hash of all rows.
        limit: approximate number of rows.
        least: minimum number of rows of each class (all rows of a class that has fewer).
    """
    if limit >= len(part.labels):
        return part
    draw = random.Random(SEED)
    rows: list[int] = []
    for label in range(len(part.classes)):
        own = [row for row, other in enumerate(part.labels) if other == label]
        rows += draw.sample(own, min(len(own), max(least, round(limit * len(own) / len(part.labels)))))
    rows.sort()
    second = None if part.sentences2 is None else _chosen(part.sentences2, rows)
    first, labels = _chosen(part.sentences1, rows), _chosen(part.labels, rows)
    return replace(part, sentences1=first, sentences2=second, labels=labels)


def sampled_row(row: dict[str, Any], of: int) -> dict[str, Any]:
    """Return the row of results with ``sample``: the number of rows that the sample was drawn from, and the seed."""
    return {**row, "sample": {"of": of, "seed": SEED}}


def _chosen(values: Sequence[_Value], rows: Sequence[int]) -> list[_Value]:
    return [values[row] for row in rows]
