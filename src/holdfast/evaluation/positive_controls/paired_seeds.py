"""The mean difference between two methods over seeds and texts, with an interval over both."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.comparison import RESAMPLES, Means, percentile_interval, resample


@dataclass(frozen=True)
class PairedDifference:
    """The mean of a method, of its baseline, and of their paired differences, with the 95 % interval of that mean."""

    method: float
    baseline: float
    difference: float
    low: float
    high: float

    @property
    def lower(self) -> bool:
        """True if the method is lower than the baseline by more than the interval."""
        return self.high < 0.0


def paired_difference(
    method: npt.ArrayLike, baseline: npt.ArrayLike, *, seed: int = 42, name: str = "", resamples: int = RESAMPLES
) -> PairedDifference:
    """Return the difference of two methods that were trained with the same seeds and measured on the same texts.

    A resample draws seeds and, for all seeds together, texts, both with replacement (hierarchical bootstrap). Runs of
    one seed are drawn together, since they share the order of the data and the random numbers of the measurement.

    Args:
        method: (S, n), a value per seed and text.
        baseline: (S, n), likewise.
        seed: of the draws.
        name: makes the draws independent of those of other names.
        resamples: number of resamples.
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (method, baseline))
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(f"values of the same seeds and texts are needed, got {first.shape} and {second.shape}")
    apart = first - second
    of_seeds = resample(Means(apart), seed=seed, name=name, resamples=resamples).drawn  # (R, S), on the same texts
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), len(apart)])
    chosen = rng.integers(len(apart), size=of_seeds.shape)
    low, high = percentile_interval(np.take_along_axis(of_seeds, chosen, axis=1).mean(axis=1))
    return PairedDifference(float(first.mean()), float(second.mean()), float(apart.mean()), low, high)
