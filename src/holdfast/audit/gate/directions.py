"""Directions of metrics: the only table of which values are better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Better = Literal["higher", "lower"]

_BETTER: Mapping[str, Better] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("spearman", "pearson", "spearman_after", "pearson_after", "accuracy", "accuracy_under_attack", "f1"),
                *(
                    "stability",
                    "found",
                    "cosine",
                    "p_hold_nearer",
                    "p_entailed_nearer",
                    "similarity",
                    "queries",
                    "replaced",
                ),
            ),
            "higher",
        ),
        **dict.fromkeys(
            (
                *("success_rate", "pull", "neighbour_changed", "lost", "alignment", "uniformity"),
                *("without_vector", "different_texts", "batch_difference"),
            ),
            "lower",
        ),
    }
)
"""The better direction of each metric. Of an attack, more queries and more replaced words are better: it is harder."""

_RANKED = re.compile(r"(recall|ndcg|mrr|map|precision|hit|found)@\d+")
"""Metrics of retrieval, all of which are better if higher."""


def better(metric: str) -> Better | None:
    """Return the better direction of a metric; None if it has none, as the number of attacked texts."""
    return "higher" if _RANKED.fullmatch(metric) else _BETTER.get(metric)


def is_worse(metric: str, difference: float) -> bool:
    """Return True if a difference to the baseline is in the worse direction of a metric that has one."""
    return difference < 0.0 if better(metric) == "higher" else difference > 0.0
