"""Scores of columns: means over rows of results, with intervals from those of the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.audit.item_names import item_name
from holdfast.evaluation.intervals import Interval, mean_interval, rate_interval, spearman_interval
from holdfast.leaderboard.suite import Column, Suite
from holdfast.result_layout import AUDIT_ITEM

Row = Mapping[str, Any]
Score = dict[str, float]
"""A value with the ends of its 95 % interval, and the number of texts or pairs of all its rows."""


def row_name(row: Row) -> str:
    """Return the name of a row without its form: ``sts12/test``, or of an audit the item's name on the card."""
    if str(row["task"]).startswith(AUDIT_ITEM):
        return item_name({"task": row["task"], "split": row["split"]})
    return f"{row['task']}/{row['split']}"


def named_rows(rows: Sequence[Row], form: str | None = None) -> dict[str, Row]:
    """Return the rows of a form of the vectors, by name."""
    return {row_name(row): row for row in rows if row.get("form") == form}


def column_score(column: Column, rows: Sequence[Row], seed: int) -> Score:
    """Return the score of a column from the rows of its part, all of which are there."""
    own = named_rows(rows, column.form)
    chosen = [own[name] for name in column.rows]
    values = [_points(column, float(row["metrics"][column.metric])) for row in chosen]
    ends = [_ordered(_points(column, end) for end in row_interval(row, column.metric, seed)) for row in chosen]
    counted = sum(row["metrics"].get("attacked", row["n"]) for row in chosen)  # not texts that no change applies to
    return {**mean_score(values, ends, disjoint=column.disjoint), "n": float(counted)}


def mean_score(values: Sequence[float], ends: Sequence[Interval], *, disjoint: bool) -> Score:
    """Return the mean of k values with the ends of its interval.

    Of disjoint data the errors are independent: the distance to an end is the root of the sum of the squares of the
    values' distances, divided by k. Of data with texts in common it is the mean of the distances, which holds for any
    dependence, since no mean varies more than its parts do on average: such an interval is rather too wide.
    """
    mean, count = sum(values) / len(values), len(values)
    distances = [[abs(end - value) for end in pair] for value, pair in zip(values, ends, strict=True)]
    below, above = (
        math.sqrt(sum(each * each for each in side)) / count if disjoint else sum(side) / count
        for side in zip(*distances, strict=True)
    )
    return {"value": mean, "low": mean - below, "high": mean + above}


def row_interval(row: Row, metric: str, seed: int) -> Interval:
    """Return the 95 % interval of a row's metric, in the metric's own unit: that of the row, or from its items."""
    low, high = (row["metrics"].get(f"{metric}_{end}") for end in ("low", "high"))
    if low is not None and high is not None:
        return float(low), float(high)
    items = row["items"]
    if metric == "spearman":
        found = spearman_interval(items["gold"], items["similarity"], seed=seed)
        return found if found is not None else (-100.0, 100.0)
    values = np.asarray(items["correct" if metric == "accuracy" else metric], dtype=np.float64)
    interval = rate_interval if np.isin(values, (0.0, 1.0)).all() else mean_interval
    low, high = interval(values, seed=seed)
    return 100.0 * low, 100.0 * high


def scores_of(suite: Suite, parts: Mapping[str, Sequence[Row]]) -> dict[str, Score]:
    """Return the scores of all columns of the parts that were measured, and of the overall ones that they complete.

    Args:
        suite: the suite.
        parts: the rows of each part.
    """
    found = {
        name: column_score(column, parts[column.part], suite.seed)
        for name, column in suite.columns.items()
        if column.part in parts
    }
    overall = {}
    for name, about in suite.overall.items():
        if all(column in found for column in about["columns"]):
            own = [found[column] for column in about["columns"]]
            ends = [(score["low"], score["high"]) for score in own]
            overall[name] = mean_score([score["value"] for score in own], ends, disjoint=about.get("disjoint", False))
            overall[name]["n"] = sum(score["n"] for score in own)
    return {**overall, **found}


def own_scores(suite: Suite, rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return the scores of the part ``own``: of each item its main metric in points, and the number of its texts."""
    items = item_names(suite, "own")
    return {
        name: {"value": 100.0 * row["metrics"][row["headline"]], "n": float(row["n"])}
        for name, row in named_rows(rows).items()
        if row["headline"] is not None and name in items
    }


def item_names(suite: Suite, part: str) -> list[str]:
    """Return the items of a part of the kind audit, groups expanded."""
    from holdfast.audit.item_selection import ItemSelection

    return ItemSelection.parse(suite.parts[part]["items"]).record() or []


def _points(column: Column, value: float) -> float:
    points = column.scale * value
    return points if column.against is None else column.against - points


def _ordered(ends: Any) -> Interval:
    low, high = sorted(ends)
    return low, high
