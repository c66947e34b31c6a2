"""Comparison of two models: paired statistics of their outputs on the same items.

A *sample* holds the outputs of several models on n items. It gives each model's score, and its scores on resamples of
the items, with the same resample for all models. These scores give the bootstrap's percentile interval and p-value
(Efron and Tibshirani 1993, §13.3; Davison and Hinkley 1997, §4.2, for the +1); for right and wrong answers there is
McNemar's exact test. If a side has several seeds, their variance is added to that of the items (`seed_variance`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError
from holdfast.evaluation.seed_variance import LEVEL, Array, StandardError, standard_error

RESAMPLES = 2000

Test = Literal["bootstrap", "mcnemar", "t"]

# Maximum of resamples × items in memory at once: it is fastest if they fit in a core's cache.
_NUMBERS_AT_ONCE = 1 << 18
# Rank scores that should be equal differ by rounding; a difference below this (x100) counts as 0.
_ROUNDING = 1e-9


class Sample(Protocol):
    """The outputs of V models on n items."""

    @property
    def count(self) -> int:
        """The number of items, n."""

    def scores(self) -> Array:
        """Return each model's score x100: (V,)."""

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return the scores x100 on n items drawn with replacement, the same items for all models: (resamples, V).

        A score is NaN if it is undefined on the resample.
        """


class Shares:
    """A sample of right and wrong answers (or of successes and failures): the score is the share x100.

    Args:
        right: (V, n), 0 or 1.
    """

    def __init__(self, right: npt.ArrayLike) -> None:
        self.right = np.asarray(right, dtype=bool)

    @property
    def count(self) -> int:
        """The number of items."""
        return int(self.right.shape[1])

    def scores(self) -> Array:
        """Return shares x100: (V,)."""
        return np.asarray(100.0 * self.right.mean(axis=1))

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return shares x100 of resamples: (resamples, V).

        Only the number of draws of each pattern of right and wrong matters, and it has a multinomial distribution.
        """
        patterns, counts = np.unique(self.right, axis=1, return_counts=True)
        drawn = rng.multinomial(self.count, counts / counts.sum(), size=resamples)
        return np.asarray(100.0 * (drawn @ patterns.T.astype(np.float64)) / self.count)

    def mcnemar(self) -> float:
        """Return the exact two-sided p-value for two models: a binomial test on the items that only one has right."""
        from scipy.stats import binomtest

        first, second = self.right
        only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
        if only_first + only_second == 0:
            return 1.0
        return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


class Means:
    """A sample of one number per item: the score is their mean, not multiplied by 100.

    Args:
        values: (V, n).
    """

    def __init__(self, values: npt.ArrayLike) -> None:
        self._values = np.asarray(values, dtype=np.float64)

    @property
    def count(self) -> int:
        """The number of items."""
        return int(self._values.shape[1])

    def scores(self) -> Array:
        """Return means: (V,)."""
        return np.asarray(self._values.mean(axis=1))

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return means of resamples: (resamples, V)."""
        draws = _item_draws(rng, resamples, self.count)
        return np.concatenate([self._values[:, drawn].mean(axis=2).T for drawn in draws])


class Correlations:
    """A sample of values per item: the score is Spearman's correlation x100 with gold, with mean ranks for ties.

    Args:
        gold: (n,).
        values: (V, n).
    """

    def __init__(self, gold: npt.ArrayLike, values: npt.ArrayLike) -> None:
        self._gold = _Ranks(np.asarray(gold, dtype=np.float64))
        self._values = [_Ranks(row) for row in np.asarray(values, dtype=np.float64)]

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self._gold.group)

    def scores(self) -> Array:
        """Return correlations x100: (V,)."""
        return np.asarray(self._correlations(np.ones((self.count, 1)))[0])

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return correlations x100 of resamples: (resamples, V)."""
        parts = []
        for drawn in _item_draws(rng, resamples, self.count):
            columns = len(drawn)
            cells = (drawn * columns + np.arange(columns)[:, None]).ravel()
            counts = np.bincount(cells, minlength=self.count * columns).reshape(self.count, columns)
            parts.append(self._correlations(counts.astype(np.float64)))
        return np.concatenate(parts)

    def _correlations(self, counts: Array) -> Array:
        """Return correlations x100, (r, V), from the number of draws of each item, (n, r)."""
        gold, gold_square = self._gold.centred(counts)
        weighted = counts * gold
        found = np.empty((counts.shape[1], len(self._values)))
        for column, values in enumerate(self._values):
            ranks, square = values.centred(counts)
            with np.errstate(invalid="ignore", divide="ignore"):  # all values are equal: there is no correlation
                found[:, column] = 100.0 * (weighted * ranks).sum(axis=0) / np.sqrt(gold_square * square)
        return found


def _item_draws(rng: np.random.Generator, resamples: int, count: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield blocks of draws of n items with replacement, (r, n), ``resamples`` rows in total."""
    block = max(1, _NUMBERS_AT_ONCE // count)
    for start in range(0, resamples, block):
        yield rng.integers(count, size=(min(block, resamples - start), count))


class SeedBySeed:
    """Samples of several seeds, each with its own items, which the baseline and the other model of that seed share.

    Args:
        samples: one for each of S seeds, with two models each: the baseline and the other.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    @property
    def count(self) -> int:
        """The number of items of all seeds together; an item that several seeds have is counted once for each."""
        return sum(sample.count for sample in self._samples)

    def scores(self) -> Array:
        """Return the scores of the baseline's seeds, then the other's in the same order: (2S,)."""
        return np.stack([sample.scores() for sample in self._samples], axis=1).ravel()

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return the scores on resamples of each seed's own items: (resamples, 2S)."""
        drawn = [sample.resampled(rng, resamples) for sample in self._samples]
        return np.stack(drawn, axis=2).reshape(resamples, -1)


class _Ranks:
    """Mean ranks of n values in any resample of them, without another sort.

    A value's mean rank is the number of drawn items below it, plus half of those equal to it (itself included), plus
    one half: these are sums of the counts in the order of the values. A resample is a column, so that all sums run
    along memory.
    """

    def __init__(self, values: Array) -> None:
        _, self.group = np.unique(values, return_inverse=True)  # the rank among the distinct values
        self._order = np.argsort(self.group, kind="stable")
        self._starts = np.searchsorted(self.group[self._order], np.arange(self.group.max() + 1))

    def centred(self, counts: Array) -> tuple[Array, Array]:
        """Return each item's mean rank minus the mean of all, (n, r), and the sum of the drawn items' squares, (r,)."""
        drawn = counts[self._order]
        if len(self._starts) < len(drawn):
            drawn = np.add.reduceat(drawn, self._starts, axis=0)
        ranks = np.cumsum(drawn, axis=0)
        ranks -= 0.5 * drawn
        ranks -= 0.5 * len(counts)
        return ranks[self.group], (drawn * ranks * ranks).sum(axis=0)


@dataclass(frozen=True)
class Resampled:
    """A sample with the scores of its resamples.

    Attributes:
        sample: the outputs of the models on a task's items.
        scores: the models' scores x100: (V,).
        drawn: their scores on resamples of the items: (R, V).
    """

    sample: Sample
    scores: Array
    drawn: Array


def resample(sample: Sample, *, seed: int, name: str, resamples: int = RESAMPLES) -> Resampled:
    """Draw R resamples of a sample's items, with replacement.

    The task's name makes the draws independent of those of other tasks with the same seed.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return Resampled(sample, sample.scores(), sample.resampled(rng, resamples))


def percentile_interval(drawn: Array) -> tuple[float, float]:
    """Return the percentile interval of `LEVEL` % from R finite scores of resamples: (R,).

    The interpolation is written out, as SciPy's bootstrap rounds it: the stored ends depend on no library's version.
    """
    ordered, count = np.sort(drawn), len(drawn)
    tail = (1.0 - LEVEL / 100.0) / 2.0
    quantiles = np.array([tail, 1.0 - tail])
    part, place = np.modf(quantiles * count + (1.0 - quantiles))  # the place counts from 1
    below = place.astype(int) - 1
    above = np.minimum(below + 1, count - 1)
    low, high = (1.0 - part) * ordered[below] + part * ordered[above]
    return float(low), float(high)


@dataclass(frozen=True)
class Difference:
    """The difference between another model's score and the baseline's.

    Attributes:
        baseline: the baseline's score x100, the mean over its seeds.
        other: the other model's score, likewise.
        baseline_std: the standard deviation over the baseline's seeds (n − 1), None for one.
        other_std: the same for the other model.
        difference: ``other − baseline``.
        low: the lower end of the 95 % interval of the difference.
        high: its upper end.
        error: the standard error of the difference.
        detectable: the minimum detectable effect: the difference that the test finds with a power of 80 %.
        p: the two-sided p-value of the hypothesis that there is no difference.
        test: the test that gives p.
    """

    baseline: float
    other: float
    baseline_std: float | None
    other_std: float | None
    difference: float
    low: float
    high: float
    error: float
    detectable: float
    p: float
    test: Test


def difference(tasks: Sequence[Resampled], baselines: int, *, paired_seeds: bool = False) -> Difference:
    """Return the difference of the mean score over tasks between the models of two sides.

    Items are drawn within each task, the same ones for all models. If a side has several seeds, their variance is
    added (`holdfast.evaluation.seed_variance`); a seed contributes its mean over all tasks.

    Args:
        tasks: the tasks, all with the same models: the baseline's seeds first, then the other's.
        baselines: number of the models that belong to the baseline.
        paired_seeds: the k-th seeds of both sides belong together, as trainings on the same data in the same order:
            the variance over seeds is that of their differences. Seeds of a `SeedBySeed` always do.

    Returns:
        The difference with its interval. One seed on each side: the percentile interval of the bootstrap; ``p`` comes
        from McNemar's exact test for one task of right and wrong answers, otherwise from the bootstrap: twice the
        smaller of the shares of resamples with a difference ≤ 0 and ≥ 0, with 1 added to numerator and denominator,
        or the normal tail if no resample is beyond 0. Several seeds on a side: Student's t.

    Raises:
        UserError: there are too few different items, so that most resamples have no score.
    """
    points = np.mean([task.scores for task in tasks], axis=0)
    drawn = np.mean([task.drawn for task in tasks], axis=0)
    kept = drawn[np.isfinite(drawn).all(axis=1)]
    if 2 * len(kept) < len(drawn):
        raise UserError("too few different items: most resamples of them have no correlation")
    baseline, other = points[:baselines], points[baselines:]
    first, second = kept[:, :baselines], kept[:, baselines:]
    estimate = float(other.mean() - baseline.mean())
    differences = second.mean(axis=1) - first.mean(axis=1)
    differences[np.abs(differences) < _ROUNDING] = 0.0
    paired = paired_seeds or any(isinstance(task.sample, SeedBySeed) for task in tasks)
    sides, values = ([second - first], [other - baseline]) if paired else ([second, first], [other, baseline])
    error = standard_error(sides, values, sum(task.sample.count for task in tasks))
    low, high, p, test = _tested(tasks, points, estimate, differences, error)
    return Difference(
        baseline=float(baseline.mean()),
        other=float(other.mean()),
        baseline_std=_std(baseline),
        other_std=_std(other),
        difference=estimate,
        low=low,
        high=high,
        error=error.value,
        detectable=error.minimum_detectable(),
        p=p,
        test=test,
    )


def _tested(
    tasks: Sequence[Resampled], points: Array, estimate: float, differences: Array, error: StandardError
) -> tuple[float, float, float, Test]:
    """Return the ends of the interval, p, and the test that gives p."""
    if len(points) > 2:
        if abs(estimate) < _ROUNDING:
            return *error.interval(0.0), 1.0, "t"
        return *error.interval(estimate), error.p(estimate), "t"
    ends = percentile_interval(differences)
    if len(tasks) == 1 and isinstance(tasks[0].sample, Shares):
        return *ends, tasks[0].sample.mcnemar(), "mcnemar"
    p = _bootstrap_p(differences)
    # No resample is beyond 0: p is below what so many resamples can tell.
    return *ends, min(p, error.p(estimate)) if p <= 2.0 / (len(differences) + 1) else p, "bootstrap"


def interval_shown() -> str:
    """Return how the intervals of a comparison are computed, for its protocol."""
    return f"paired bootstrap over items, {LEVEL:g} %: its percentiles, with several seeds t of items and seeds"


def contrast(task: Resampled, weights: Sequence[float]) -> dict[str, float]:
    """Return a weighted sum of the scores of V models on one task, with its interval: ``{difference, low, high, p}``.

    Weights 1 and -1 of two models give their difference; 1, -1, -1 and 1 of four the difference of two differences.

    Args:
        task: the models' scores and those on resamples of the items, the same for all models.
        weights: V numbers; a model with 0 takes no part.

    Returns:
        The values; ``p`` as in `difference`.

    Raises:
        UserError: there are too few different items, so that most resamples have no score.
    """
    used = np.flatnonzero(weights)
    own = np.asarray(weights, dtype=np.float64)[used]
    drawn = task.drawn[:, used] @ own
    differences = drawn[np.isfinite(drawn)]
    if 2 * len(differences) < len(drawn):
        raise UserError("too few different items: most resamples of them have no correlation")
    differences[np.abs(differences) < _ROUNDING] = 0.0
    low, high = percentile_interval(differences)
    if isinstance(task.sample, Shares) and sorted(own) == [-1.0, 1.0]:
        p = Shares(task.sample.right[used]).mcnemar()
    else:
        p = _bootstrap_p(differences)
    return {"difference": float(task.scores[used] @ own), "low": low, "high": high, "p": p}


def _std(scores: Array) -> float | None:
    return float(scores.std(ddof=1)) if len(scores) > 1 else None


def _bootstrap_p(differences: Array) -> float:
    """Return twice the smaller of the shares of resamples with a difference ≤ 0 and ≥ 0, one more in each."""
    tail = 1 + min(int((differences <= 0.0).sum()), int((differences >= 0.0).sum()))
    return min(1.0, 2.0 * tail / (len(differences) + 1))
