"""A part of a task's rows, drawn by a fixed seed, for a quick look: a score on it is no score of the task."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.data.registry import Labelled, ScoredPairs

SEED = 0
"""Of the drawing: the same rows for every model."""

_Value = TypeVar("_Value")


def sample_pairs(pairs: ScoredPairs, limit: int) -> ScoredPairs:
    """At most ``limit`` of the pairs, in their order; ``sha256`` stays that of all of them."""
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
    """About ``limit`` of the rows, in their order: of each class its share, and at least ``least`` where it has them.

    Args:
        part: the rows; ``sha256`` stays that of all of them.
        limit: how many.
        least: of each class.
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
    """A row of results that says that it is of a sample, and of how many rows."""
    return {**row, "sample": {"of": of, "seed": SEED}}


def _chosen(values: Sequence[_Value], rows: Sequence[int]) -> list[_Value]:
    return [values[row] for row in rows]
