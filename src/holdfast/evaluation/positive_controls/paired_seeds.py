"""The mean difference between two methods over seeds and texts, with an interval over both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.comparison import RESAMPLES, difference, resample
from holdfast.evaluation.samples import Means


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

    Texts are drawn with replacement, for all runs together; the variance over seeds is that of the differences of runs
    of one seed, which share the order of the data and the random numbers of the measurement (`comparison.difference`).

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
    sample = resample(Means(np.concatenate([second, first])), seed=seed, name=name, resamples=resamples)
    found = difference([sample], len(second), paired_seeds=True)
    return PairedDifference(found.other, found.baseline, found.difference, found.low, found.high)
