"""Comparison of two models: paired statistics of their outputs on the same items.

A *sample* holds the outputs of several models on n items. It gives each model's score, and its scores on resamples of
the items, with the same resample for all models. These scores give the bootstrap's percentile interval and p-value
(Efron and Tibshirani 1993, §13.3; Davison and Hinkley 1997, §4.2, for the +1); for right and wrong answers there is
McNemar's exact test. If a side has several seeds, their variance is added to that of the items (`seed_variance`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from holdfast.errors import UserError
from holdfast.evaluation.samples import Correlations, Means, Sample, SeedBySeed, Shares, resampled_together
from holdfast.evaluation.seed_variance import LEVEL, Array, StandardError, standard_error

RESAMPLES = 2000
FEW = 30
"""Items of a mean below which its interval and p come from Student's t: the bootstrap's are too narrow."""

Test = Literal["bootstrap", "mcnemar", "t"]

# Scores that should be equal differ by rounding; a difference below this part of them (of 1 at least) counts as 0.
_ROUNDING = 1e-9


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


def resample_together(
    tasks: Sequence[Resampled], ids: Sequence[Sequence[str | None]], *, seed: int, name: str
) -> list[Resampled]:
    """Draw the resamples of several tasks again, with items that several of them have drawn together.

    Without this, the interval of the mean of tasks that share items is too narrow. One task, tasks that share none, and
    those that are not correlations stay as they are.

    Args:
        tasks: T tasks with R resamples each.
        ids: for each task, an id of each of its items, or None: see `holdfast.evaluation.samples.resampled_together`.
        seed: the seed of all draws.
        name: name of the mean, which makes its draws independent of others with the same seed.
    """
    samples = [task.sample for task in tasks]
    correlations = [sample for sample in samples if isinstance(sample, Correlations)]
    if len(tasks) == 1 or len(correlations) < len(tasks) or not any(each is not None for own in ids for each in own):
        return list(tasks)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    drawn = resampled_together(correlations, ids, rng, len(tasks[0].drawn))
    return [Resampled(task.sample, task.scores, own) for task, own in zip(tasks, drawn, strict=True)]


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
        or the normal tail if no resample is beyond 0. Several seeds on a side, or a mean of fewer than `FEW` items, of
        which the bootstrap's interval is too narrow: Student's t. A single item has p 1; if all n items differ by the
        same in all seeds, p is that of the test that exchanges signs, 2 ** (1 - n).

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
    estimate = _without_rounding(float(other.mean() - baseline.mean()), points)
    differences = second.mean(axis=1) - first.mean(axis=1)
    differences[np.abs(differences) < _ROUNDING] = 0.0
    paired = paired_seeds or any(isinstance(task.sample, SeedBySeed) for task in tasks)
    sides, values = ([second - first], [other - baseline]) if paired else ([second, first], [other, baseline])
    items = sum(task.sample.count for task in tasks)
    error = standard_error(sides, values, items)
    if len(points) == 2 and _are_few(tasks):
        error = error.of_few(items)
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


def _are_few(tasks: Sequence[Resampled]) -> bool:
    """Return True for means of 2 to `FEW` - 1 items, of which the bootstrap's interval and p are too narrow."""
    return 1 < sum(task.sample.count for task in tasks) < FEW and all(type(task.sample) is Means for task in tasks)


def _tested(
    tasks: Sequence[Resampled], points: Array, estimate: float, differences: Array, error: StandardError
) -> tuple[float, float, float, Test]:
    """Return the ends of the interval, p, and the test that gives p."""
    items = sum(task.sample.count for task in tasks)
    if len(points) > 2:
        if estimate == 0.0 or items == 1:
            return *error.interval(estimate), 1.0, "t"
        if error.value == 0.0:
            error = replace(error, freedom=float(items - 1))
        return *error.interval(estimate), error.p(estimate), "t"
    shares = tasks[0].sample if len(tasks) == 1 and isinstance(tasks[0].sample, Shares) else None
    return _tested_over_items(items, shares, estimate, differences, error)


def _tested_over_items(
    items: int, shares: Shares | None, estimate: float, differences: Array, error: StandardError
) -> tuple[float, float, float, Test]:
    """Return the same as `_tested` where only items vary; ``shares`` has the right answers of two models, if any."""
    if math.isfinite(error.freedom):
        return *error.interval(estimate), error.p(estimate), "t"
    ends = percentile_interval(differences)
    if items == 1:  # it tells nothing of chance
        return *ends, 1.0, "bootstrap"
    if shares is not None:
        return *ends, shares.mcnemar(), "mcnemar"
    return *ends, _bootstrap_p(differences, estimate, error), "bootstrap"


def interval_shown() -> str:
    """Return how the intervals of a comparison are computed, for its protocol."""
    return (
        f"paired bootstrap over items, {LEVEL:g} %: its percentiles, with several seeds t of items and seeds, of means "
        f"of fewer than {FEW} items t"
    )


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
    estimate, items = _without_rounding(float(task.scores[used] @ own), task.scores[used]), task.sample.count
    error = standard_error([differences[:, None]], [np.array([estimate])], items)
    if _are_few([task]):
        error = error.of_few(items)
    shares = None
    if isinstance(task.sample, Shares) and sorted(own) == [-1.0, 1.0]:
        shares = Shares(task.sample.right[used])
    low, high, p, _ = _tested_over_items(items, shares, estimate, differences, error)
    return {"difference": estimate, "low": low, "high": high, "p": p}


def _without_rounding(estimate: float, scores: Array) -> float:
    """Return the difference of some scores; 0 if it is from their rounding alone."""
    return 0.0 if abs(estimate) < _ROUNDING * max(1.0, float(np.abs(scores).max())) else estimate


def _std(scores: Array) -> float | None:
    return float(scores.std(ddof=1)) if len(scores) > 1 else None


def _bootstrap_p(differences: Array, estimate: float, error: StandardError) -> float:
    """Return twice the smaller of the shares of resamples with a difference ≤ 0 and ≥ 0, one more in each.

    If no resample is beyond 0, p is below what so many resamples can tell: it is the normal tail.
    """
    tail = 1 + min(int((differences <= 0.0).sum()), int((differences >= 0.0).sum()))
    p = min(1.0, 2.0 * tail / (len(differences) + 1))
    return p if tail > 1 else min(p, error.p(estimate))
