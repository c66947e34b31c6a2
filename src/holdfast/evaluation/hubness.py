"""Hubs of a corpus: documents that are among the k nearest of unusually many queries.

The k-occurrence N_k(x) is the number of queries that have x among their k nearest (Radovanović et al. 2010, "Hubs in
Space", section 2). A passage made to be near many queries is a hub, so that N_k is a detector of such passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.encoding import Vectors
from holdfast.evaluation.dense_search import NearestDocuments
from holdfast.evaluation.intervals import rate_interval

PERCENTILE = 95.0
"""Percentile of the clean documents that is the threshold of a detector."""

Counts = npt.NDArray[np.int64]


def k_occurrence(queries: Vectors, documents: Vectors, k: int, similarity: str = "cosine") -> Counts:
    """Return N_k of n documents (n, d): how many of the queries (Q, d) have each among their k nearest, (n,)."""
    nearest = NearestDocuments(queries, k, similarity)
    nearest.add(documents)
    found = nearest.positions[nearest.positions >= 0]
    counts: Counts = np.bincount(found, minlength=len(documents)).astype(np.int64)
    return counts


@dataclass(frozen=True)
class Detector:
    """A detector of unusual documents: a score above a threshold that was set on other clean documents.

    Attributes:
        threshold: the percentile of the score over one half of the clean documents.
        false_alarms: share of the other half above it, ×100, with its 95 % interval.
        recall: share of the made passages above it, ×100, with its 95 % interval.
        clean: number of clean documents in each half.
    """

    threshold: float
    false_alarms: tuple[float, float, float]
    recall: tuple[float, float, float]
    clean: tuple[int, int]

    def metrics(self, name: str) -> dict[str, float]:
        """Return the numbers with names that begin with ``name``."""
        found = {f"{name}_threshold": self.threshold}
        for part, values in (("false_alarms", self.false_alarms), ("recall", self.recall)):
            found |= dict(zip((f"{name}_{part}{end}" for end in ("", "_low", "_high")), values, strict=True))
        return found


def detector(clean: Sequence[float], made: Sequence[float], *, seed: int, percentile: float = PERCENTILE) -> Detector:
    """Set the threshold on a random half of the clean scores; measure false alarms on the other half, and recall.

    Args:
        clean: scores of n ≥ 2 ordinary documents.
        made: scores of m ≥ 1 made passages.
        seed: random seed of the halves and of the intervals.
        percentile: percentile of the first half that is the threshold.
    """
    order = np.random.default_rng(seed).permutation(len(clean))
    scores = np.asarray(clean, dtype=np.float64)
    first, second = scores[order[: len(order) // 2]], scores[order[len(order) // 2 :]]
    threshold = float(np.percentile(first, percentile, method="higher"))
    return Detector(
        threshold,
        _share(second > threshold, seed),
        _share(np.asarray(made, dtype=np.float64) > threshold, seed),
        (len(first), len(second)),
    )


def _share(outcomes: npt.NDArray[np.bool_], seed: int) -> tuple[float, float, float]:
    low, high = rate_interval(outcomes, seed=seed)
    return 100.0 * float(outcomes.mean()), 100.0 * low, 100.0 * high
