"""The number that a column shows, from the result of its cell."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.sts import STS_TASKS, average

TIMES = ("seconds_per_example",)
"""Measures of time; they depend on the load of the machine."""


def measured(measure: str, result: Mapping[str, Any]) -> float:
    """Return one number of a result.

    Args:
        measure: "sts" (the mean Spearman of the seven test sets), "transfer" (the mean accuracy of all transfer tasks
            that were measured), "transfer_dev" (likewise, on the data that chose the penalty), "seconds_per_example"
            (of an attack), "accuracy_drop" (accuracy before minus accuracy under an attack); a metric such as
            "accuracy" or "success_rate", of the first test split or else of the first row; or "TASK.METRIC" for one
            task, "TASK/SPLIT.METRIC" for one split.
        result: the result that a command wrote.

    Raises:
        UserError: the result has no such number.
    """
    rows = result["results"]
    value: Any
    if measure == "sts":
        value = average(row for row in rows if "spearman" in row["metrics"])
    elif measure == "transfer":
        value = _mean(row["metrics"]["accuracy"] for row in rows if "accuracy" in row["metrics"])
    elif measure == "transfer_dev":
        value = _mean(row["dev_accuracy"] for row in rows if "dev_accuracy" in row)
    elif measure == "seconds_per_example":
        value = result.get("timing", {}).get(measure)
    else:
        metrics = (row_of(measure, result) or {"metrics": {}})["metrics"]
        metric = measure.rpartition(".")[2]
        value = _drop(metrics) if metric == "accuracy_drop" else metrics.get(metric)
    if value is None:
        raise UserError(_why(measure, result))
    return float(value)


def row_of(measure: str, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the row that "METRIC", "TASK.METRIC" or "TASK/SPLIT.METRIC" refers to; None if there is none."""
    name = measure.rpartition(".")[0]
    task, _, split = name.partition("/")
    rows = [row for row in result["results"] if not name or row["task"] in (task, name)]
    if split and not any(row["task"] == name for row in rows):  # a task's name may contain a slash
        rows = [row for row in rows if row["split"] == split]
    # Test splits first, in their order; then "held-out-test"; then the others, such as the split that chose the epoch.
    rows.sort(key=lambda row: (not str(row["split"]).startswith("test"), row["split"] != "held-out-test"))
    return rows[0] if rows else None


def rows_behind(measure: str, result: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], str]:
    """Return the rows of a result that a measure averages, and the metric that it takes from each.

    For a measure that is not the mean of a metric, such as "seconds_per_example", the rows do not have the returned
    metric.
    """
    rows = result["results"]
    if measure == "sts":
        tested = [row for row in rows if row["task"] in STS_TASKS and row["split"] == "test"]
        return [row for row in tested if "spearman" in row["metrics"]], "spearman"
    if measure == "transfer":
        return [row for row in rows if "accuracy" in row["metrics"]], "accuracy"
    row = row_of(measure, result)
    return [] if row is None else [row], measure.rpartition(".")[2]


def _mean(values: Iterable[float]) -> float | None:
    held = list(values)
    return statistics.mean(held) if held else None


def _drop(metrics: Mapping[str, float]) -> float | None:
    if "accuracy" not in metrics or "accuracy_under_attack" not in metrics:
        return None
    return metrics["accuracy"] - metrics["accuracy_under_attack"]


def _why(measure: str, result: Mapping[str, Any]) -> str:
    rows = result["results"]
    if rows and measure in ("replaced", "similarity") and not rows[0]["metrics"].get("succeeded", 1):
        return "no attack succeeded"
    if rows and not rows[0]["metrics"].get("attacked", 1):
        return "no example could be attacked"
    return f"the result has no {measure}"
