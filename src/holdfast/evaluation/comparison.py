"""Whether two models differ: paired statistics of what both made of the same items.

A *sample* holds what several models made of n items. It tells each model's score, and its scores on resamples of the
items, the same resample for all models. On these stand the bootstrap's percentile interval and p-value (Efron and
Tibshirani 1993, §13.3; Davison and Hinkley 1997, §4.2, for the +1); for right and wrong there is McNemar's exact test.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError

RESAMPLES = 2000
LEVEL = 95.0

Array = npt.NDArray[np.float64]
Test = Literal["bootstrap", "mcnemar"]

# Resamples times items that are held at once: what a core's cache can take is fastest.
_NUMBERS_AT_ONCE = 1 << 18
# Scores of ranks that should be equal differ by rounding; a difference below this (of x100) is none.
_ROUNDING = 1e-9


class Sample(Protocol):
    """What V models made of n items."""

    @property
    def count(self) -> int:
        """n."""

    def scores(self) -> Array:
        """Each model's score x100: (V,)."""

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Their scores x100 on n items drawn with replacement, the same for all models: (resamples, V).

        NaN where a resample has no score.
        """


class Shares:
    """Right or wrong (succeeded or failed): the score is the share x100.

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
        """Shares x100: (V,)."""
        shares: Array = 100.0 * self.right.mean(axis=1)
        return shares

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Shares x100 of resamples: (resamples, V).

        Only how often each pattern of right and wrong is drawn matters, and that is multinomial.
        """
        patterns, counts = np.unique(self.right, axis=1, return_counts=True)
        drawn = rng.multinomial(self.count, counts / counts.sum(), size=resamples)
        shares: Array = 100.0 * (drawn @ patterns.T.astype(np.float64)) / self.count
        return shares

    def mcnemar(self) -> float:
        """The exact two-sided p-value for two models: a fair coin among the items that one of them has right."""
        from scipy.stats import binomtest

        first, second = self.right
        only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
        if only_first + only_second == 0:
            return 1.0
        return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


class Means:
    """A number per item: the score is their mean, as it is, not x100.

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
        """Means: (V,)."""
        means: Array = self._values.mean(axis=1)
        return means

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Means of resamples: (resamples, V)."""
        block = max(1, _NUMBERS_AT_ONCE // self.count)
        parts = []
        for start in range(0, resamples, block):
            drawn = rng.integers(self.count, size=(min(block, resamples - start), self.count))
            parts.append(self._values[:, drawn].mean(axis=2).T)
        return np.concatenate(parts)


class Correlations:
    """Spearman's correlation x100 of each model's values with gold, ties at their mean rank.

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
        """Correlations x100: (V,)."""
        found: Array = self._correlations(np.ones((self.count, 1)))[0]
        return found

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Correlations x100 of resamples: (resamples, V)."""
        block = max(1, _NUMBERS_AT_ONCE // self.count)
        parts = []
        for start in range(0, resamples, block):
            columns = min(block, resamples - start)
            drawn = rng.integers(self.count, size=(columns, self.count))
            cells = (drawn * columns + np.arange(columns)[:, None]).ravel()
            counts = np.bincount(cells, minlength=self.count * columns).reshape(self.count, columns)
            parts.append(self._correlations(counts.astype(np.float64)))
        return np.concatenate(parts)

    def _correlations(self, counts: Array) -> Array:
        """From how often each item is drawn, (n, r), to correlations x100, (r, V)."""
        gold, gold_square = self._gold.centred(counts)
        weighted = counts * gold
        found = np.empty((counts.shape[1], len(self._values)))
        for column, values in enumerate(self._values):
            ranks, square = values.centred(counts)
            with np.errstate(invalid="ignore", divide="ignore"):  # all values equal: there is no correlation
                found[:, column] = 100.0 * (weighted * ranks).sum(axis=0) / np.sqrt(gold_square * square)
        return found


class SeedBySeed:
    """Seeds of which each has items of its own: the same for a baseline and another model, but not for other seeds.

    Args:
        samples: one for each of S seeds, of two models each: the baseline and the other.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    @property
    def count(self) -> int:
        """The number of items of all seeds together; one that several seeds have counts for each."""
        return sum(sample.count for sample in self._samples)

    def scores(self) -> Array:
        """The baseline's seeds, then the other's in the same order: (2S,)."""
        return np.stack([sample.scores() for sample in self._samples], axis=1).ravel()

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Their scores on resamples of each seed's own items: (resamples, 2S)."""
        drawn = [sample.resampled(rng, resamples) for sample in self._samples]
        return np.stack(drawn, axis=2).reshape(resamples, -1)


class _Ranks:
    """Mean ranks of n values in any resample of them, without sorting again.

    A value's mean rank is the number of drawn items below it, and half of those equal to it, itself included, plus a
    half: sums of the counts in the order of the values. A resample is a column, so that all sums run along memory.
    """

    def __init__(self, values: Array) -> None:
        _, self.group = np.unique(values, return_inverse=True)  # the rank among the distinct values
        self._order = np.argsort(self.group, kind="stable")
        self._starts = np.searchsorted(self.group[self._order], np.arange(self.group.max() + 1))

    def centred(self, counts: Array) -> tuple[Array, Array]:
        """Each item's mean rank less the mean of all, (n, r), and the sum of the drawn items' squares, (r,)."""
        drawn = counts[self._order]
        if len(self._starts) < len(drawn):
            drawn = np.add.reduceat(drawn, self._starts, axis=0)
        ranks = np.cumsum(drawn, axis=0)
        ranks -= 0.5 * drawn
        ranks -= 0.5 * len(counts)
        return ranks[self.group], (drawn * ranks * ranks).sum(axis=0)


@dataclass(frozen=True)
class Resampled:
    """A sample with its draws.

    Attributes:
        sample: what the models made of a task's items.
        scores: their scores x100: (V,).
        drawn: on resamples of the items: (R, V).
    """

    sample: Sample
    scores: Array
    drawn: Array


def resample(sample: Sample, *, seed: int, name: str, resamples: int = RESAMPLES) -> Resampled:
    """Draw a sample's items, with replacement.

    Args:
        sample: what the models made of a task's items.
        seed: of all draws.
        name: of the task, so that its draws are its own, whatever other tasks there are.
        resamples: R.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return Resampled(sample, sample.scores(), sample.resampled(rng, resamples))


@dataclass(frozen=True)
class Difference:
    """How another model's score differs from the baseline's.

    Attributes:
        baseline: its score x100, the mean over its seeds.
        other: the same of the other.
        baseline_std: the standard deviation over the baseline's seeds (n − 1), None for one.
        other_std: the same of the other.
        difference: ``other − baseline``.
        low: the lower end of the 95 % interval of the difference.
        high: its upper end.
        p: two-sided, that there is no difference.
        test: what p comes from.
    """

    baseline: float
    other: float
    baseline_std: float | None
    other_std: float | None
    difference: float
    low: float
    high: float
    p: float
    test: Test


def difference(tasks: Sequence[Resampled], baselines: int, *, seed: int) -> Difference:
    """The difference of the mean score over tasks, between the models of two sides.

    Items are drawn within each task. Where a side has several seeds, these are drawn with replacement too, and a
    drawn seed counts with its scores on all tasks; seeds of a `SeedBySeed` are drawn for both sides together.

    Args:
        tasks: each of the same models: the baseline's seeds first, then the other's.
        baselines: how many of the models are the baseline's.
        seed: of the draws of seeds.

    Returns:
        The difference with its percentile interval. ``p`` is McNemar's exact test for one task of right and wrong and
        one model a side; otherwise the bootstrap's: twice the smaller share of resamples on either side of no
        difference, both counted with one more.

    Raises:
        UserError: too few items for their resamples to have scores.
    """
    points = np.mean([task.scores for task in tasks], axis=0)
    drawn = np.mean([task.drawn for task in tasks], axis=0)
    rng = np.random.default_rng([seed, len(points)])
    first, second = drawn[:, :baselines], drawn[:, baselines:]
    if any(isinstance(task.sample, SeedBySeed) for task in tasks):
        differences = _over_seeds(second - first, rng)  # drawn apart they would be of different items again
    else:
        means = [_over_seeds(first, rng), _over_seeds(second, rng)]
        differences = means[1] - means[0]
    differences = differences[np.isfinite(differences)]
    if 2 * len(differences) < len(drawn):
        raise UserError("too few different items: most resamples of them have no correlation")
    differences[np.abs(differences) < _ROUNDING] = 0.0
    low, high = np.percentile(differences, [50.0 - LEVEL / 2, 50.0 + LEVEL / 2])
    p, test = _p_value(tasks, len(points), differences)
    baseline, other = points[:baselines], points[baselines:]
    return Difference(
        baseline=float(baseline.mean()),
        other=float(other.mean()),
        baseline_std=_std(baseline),
        other_std=_std(other),
        difference=float(other.mean() - baseline.mean()),
        low=float(low),
        high=float(high),
        p=p,
        test=test,
    )


def _std(scores: Array) -> float | None:
    return float(scores.std(ddof=1)) if len(scores) > 1 else None


def _over_seeds(scores: Array, rng: np.random.Generator) -> Array:
    """Means over seeds drawn with replacement, anew for each resample: from (R, S) to (R,)."""
    resamples, seeds = scores.shape
    if seeds == 1:
        return scores[:, 0]
    chosen = rng.integers(seeds, size=(resamples, seeds))
    means: Array = np.take_along_axis(scores, chosen, axis=1).mean(axis=1)
    return means


def _p_value(tasks: Sequence[Resampled], models: int, differences: Array) -> tuple[float, Test]:
    if len(tasks) == 1 and models == 2 and isinstance(tasks[0].sample, Shares):
        return tasks[0].sample.mcnemar(), "mcnemar"
    tail = 1 + min(int((differences <= 0.0).sum()), int((differences >= 0.0).sum()))
    return min(1.0, 2.0 * tail / (len(differences) + 1)), "bootstrap"
