"""Scores of models on tasks: means over seeds, intervals of single models, and the best models."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.report.elements import TableCell
from holdfast.report.result_sources import ReportSource

_Z = 1.959963984540054
"""The quantile of a two-sided 95 % interval of the normal distribution."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Score:
    """A model's score on a task, of one or several seeds.

    Attributes:
        values: one for each seed.
        interval: the 95 % interval of a single value, if it is known.
    """

    values: tuple[float, ...]
    interval: Interval | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds (n − 1); None for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def cell(self, digits: int = 2, *, best: bool = False) -> TableCell:
        """Return the cell of a table: the score with its spread over seeds, or else its interval."""
        if self.std is not None:
            detail, title = f"± {self.std:.{digits}f}", f"mean ± standard deviation of {len(self.values)} seeds"
        elif self.interval is not None:
            low, high = self.interval
            detail, title = f"{low:.{digits - 1}f}–{high:.{digits - 1}f}", "95 % interval"
        else:
            detail = title = ""
        return TableCell(f"{self.mean:.{digits}f}", detail, title, best)


def spearman_interval(score: float, n: int) -> Interval | None:
    """Return the 95 % interval of a Spearman correlation ×100 of n pairs (Bonett and Wright 2000).

    It is None below 4 pairs, and for a perfect correlation.
    """
    r = score / 100.0
    if n < 4 or not -1.0 < r < 1.0:
        return None
    spread = _Z * math.sqrt((1.0 + r * r / 2.0) / (n - 3))
    return 100.0 * math.tanh(math.atanh(r) - spread), 100.0 * math.tanh(math.atanh(r) + spread)


def share_interval(score: float, n: int) -> Interval | None:
    """Return the 95 % interval of a proportion ×100 of n items (Wilson 1927); None without items."""
    p = score / 100.0
    if n < 1 or not 0.0 <= p <= 1.0:
        return None
    centre = p + _Z * _Z / (2 * n)
    spread = _Z * math.sqrt(p * (1.0 - p) / n + _Z * _Z / (4 * n * n))
    whole = 1.0 + _Z * _Z / n
    return max(0.0, 100.0 * (centre - spread) / whole), min(100.0, 100.0 * (centre + spread) / whole)


Scores = dict[str, dict[str, Score]]
"""Scores by model, then by column."""


def collect(
    sources: Iterable[ReportSource],
    column: Callable[[Mapping[str, Any]], str | None],
    metric: str,
    interval: Callable[[Mapping[str, Any]], Interval | None] | None = None,
) -> Scores:
    """Collect the scores of every model from rows with ``metric`` whose ``column`` is not None; seeds are joined."""
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for source in sources:
        for row in source.rows:
            name = column(row)
            if name is not None and metric in row["metrics"]:
                found.setdefault(source.label, {}).setdefault(name, []).append(row)
    return {
        label: {
            name: Score(
                tuple(float(row["metrics"][metric]) for row in rows),
                interval(rows[0]) if interval else None,
            )
            for name, rows in own.items()
        }
        for label, own in found.items()
    }


def mean_and_ends(found: Sequence[Mapping[str, float]], metric: str) -> tuple[float, float | None, float | None]:
    """Return a metric and the ends of its interval, if it has one; of several seeds the mean, lowest and highest."""
    values = [metrics[metric] for metrics in found]
    if len(values) > 1:
        return statistics.fmean(values), min(values), max(values)
    return values[0], found[0].get(f"{metric}_low"), found[0].get(f"{metric}_high")


def with_average(scores: Scores, name: str, tasks: Sequence[str]) -> Scores:
    """Return the scores, with the mean over ``tasks`` for models that have all of them with equally many seeds."""
    averaged: Scores = {}
    for label, own in scores.items():
        averaged[label] = dict(own)
        if all(task in own for task in tasks) and len({len(own[task].values) for task in tasks}) == 1:
            seeds = zip(*(own[task].values for task in tasks), strict=True)
            averaged[label][name] = Score(tuple(statistics.fmean(values) for values in seeds))
    return averaged


def best_of(scores: Scores, column: str, *, digits: int = 2, lowest: bool = False) -> set[str]:
    """Return the best models in a column, compared at the shown digits; none if there is only one model."""
    shown = {label: round(own[column].mean, digits) for label, own in scores.items() if column in own}
    if len(shown) < 2:
        return set()
    best = (min if lowest else max)(shown.values())
    return {label for label, value in shown.items() if value == best}
