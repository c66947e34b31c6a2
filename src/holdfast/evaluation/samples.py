"""Samples: outputs of several models on the same items, with their scores on all items and on resamples of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.seed_variance import Array

# Maximum of resamples × items in memory at once: it is fastest if they fit in a core's cache.
_NUMBERS_AT_ONCE = 1 << 18


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


class TwoGroups:
    """A sample of pairs of two groups: the score is the share of pairs of one from each that are in the right order.

    That is the area under the ROC curve, not multiplied by 100. Its resamples draw both groups, by the components of
    DeLong, DeLong and Clarke-Pearson (1988): the mean of each group's placements, less the score.

    Args:
        first: for each of n items, the share of the other group's items that are in the right order: (V, n).
        second: the same for the other group's m items: (V, m); the means of both are equal.
    """

    def __init__(self, first: npt.ArrayLike, second: npt.ArrayLike) -> None:
        self._groups = Means(first), Means(second)

    @property
    def count(self) -> int:
        """The number of items of both groups, n + m."""
        return sum(group.count for group in self._groups)

    def scores(self) -> Array:
        """Return shares: (V,)."""
        return self._groups[0].scores()

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return shares of resamples of both groups: (resamples, V)."""
        first, second = (group.resampled(rng, resamples) for group in self._groups)
        return first + second - self._groups[1].scores()


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
        return np.asarray(self.scores_of(np.ones((self.count, 1)))[0])

    def resampled(self, rng: np.random.Generator, resamples: int) -> Array:
        """Return correlations x100 of resamples: (resamples, V)."""
        parts = []
        for drawn in _item_draws(rng, resamples, self.count):
            columns = len(drawn)
            cells = (drawn * columns + np.arange(columns)[:, None]).ravel()
            counts = np.bincount(cells, minlength=self.count * columns).reshape(self.count, columns)
            parts.append(self.scores_of(counts.astype(np.float64)))
        return np.concatenate(parts)

    def scores_of(self, counts: Array) -> Array:
        """Return correlations x100, (r, V), from the number of draws of each item, (n, r)."""
        gold, gold_square = self._gold.centred(counts)
        weighted = counts * gold
        found = np.empty((counts.shape[1], len(self._values)))
        for column, values in enumerate(self._values):
            ranks, square = values.centred(counts)
            with np.errstate(invalid="ignore", divide="ignore"):  # all values are equal: there is no correlation
                found[:, column] = 100.0 * (weighted * ranks).sum(axis=0) / np.sqrt(gold_square * square)
        return found


def resampled_together(
    samples: Sequence[Correlations], ids: Sequence[Sequence[str | None]], rng: np.random.Generator, resamples: int
) -> list[Array]:
    """Return scores x100 on resamples in which an item that several samples have is drawn for all of them together.

    Each distinct item is drawn a Poisson(1) number of times: the number of draws of a sample varies a little, on which
    correlations do not depend.

    Args:
        samples: of the same V models.
        ids: for each sample, an id of each item, which an equal item of another sample has, too; None: no other has it.
        rng: generator of the draws.
        resamples: their number.

    Returns:
        For each sample its scores, (resamples, V).
    """
    numbers: dict[tuple[int, int] | str, int] = {}
    rows = [
        np.array([numbers.setdefault((place, n) if each is None else each, len(numbers)) for n, each in enumerate(own)])
        for place, own in enumerate(ids)
    ]
    parts: list[list[Array]] = [[] for _ in samples]
    block = max(1, _NUMBERS_AT_ONCE // len(numbers))
    for start in range(0, resamples, block):
        counts = rng.poisson(1.0, size=(len(numbers), min(block, resamples - start))).astype(np.float64)
        for part, sample, own in zip(parts, samples, rows, strict=True):
            part.append(sample.scores_of(counts[own]))
    return [np.concatenate(part) for part in parts]


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
    """Mean ranks of n values in any resample of them, of n draws or another number, without another sort.

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
        ranks -= 0.5 * counts.sum(axis=0)
        return ranks[self.group], (drawn * ranks * ranks).sum(axis=0)
