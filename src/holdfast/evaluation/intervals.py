"""95 % bootstrap intervals of a mean, a rate and a correlation: percentiles of `RESAMPLES` resamples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from holdfast.evaluation.comparison import RESAMPLES, percentile_interval
from holdfast.evaluation.samples import Correlations, Means, Sample

Interval = tuple[float, float]


def mean_interval(values: npt.ArrayLike, *, seed: int) -> Interval:
    """Return the interval of the mean of n numbers."""
    return percentile_interval(_resampled(Means(np.asarray(values)[None]), seed))


def rate_interval(outcomes: npt.ArrayLike, *, seed: int) -> Interval:
    """Return the interval of the share of True, from 0 to 1.

    If all outcomes are equal, all resamples are too, and their interval would have no width: it is the exact one of
    Clopper and Pearson instead.
    """
    right = np.asarray(outcomes, dtype=bool)
    count = int(right.sum())
    if 0 < count < len(right):
        return mean_interval(right, seed=seed)
    exact = binomtest(count, len(right)).proportion_ci(0.95, method="exact")
    return float(exact.low), float(exact.high)


def share_interval(values: npt.ArrayLike, *, seed: int) -> Interval:
    """Return the interval of the mean of n numbers from 0 to 1; as `rate_interval` if all of them are 0 or 1."""
    shares = np.asarray(values, dtype=np.float64)
    if np.isin(shares, (0.0, 1.0)).all():
        return rate_interval(shares == 1.0, seed=seed)
    return mean_interval(shares, seed=seed)


def spearman_interval(gold: npt.ArrayLike, values: npt.ArrayLike, *, seed: int) -> Interval | None:
    """Return the interval of Spearman's correlation x100 of n pairs; None if no resample has a correlation."""
    drawn = _resampled(Correlations(gold, np.asarray(values)[None]), seed)
    drawn = drawn[np.isfinite(drawn)]
    return percentile_interval(drawn) if len(drawn) else None


def _resampled(sample: Sample, seed: int) -> npt.NDArray[np.float64]:
    """Return the score of the one model on each resample: (`RESAMPLES`,)."""
    return sample.resampled(np.random.default_rng(seed), RESAMPLES)[:, 0]
