"""The number that a column shows, from the result of its cell."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.sts import average


def measured(measure: str, result: Mapping[str, Any]) -> float:
    """One number of a result.

    Args:
        measure: "sts" (the mean Spearman of the seven test sets), "transfer" (the mean accuracy of all transfer tasks
            that were measured), a metric such as "accuracy" or "success_rate" of the first test split there is, else
            of the first row; or "TASK.METRIC" for one task's.
        result: as a command wrote it.

    Raises:
        UserError: the result has no such number.
    """
    rows = result["results"]
    if measure == "sts":
        value = average(row for row in rows if "spearman" in row["metrics"])
    elif measure == "transfer":
        accuracies = [row["metrics"]["accuracy"] for row in rows if "accuracy" in row["metrics"]]
        value = statistics.mean(accuracies) if accuracies else None
    else:
        task, _, metric = measure.rpartition(".")
        own = [row for row in rows if not task or row["task"] == task]
        own.sort(key=lambda row: not str(row["split"]).startswith("test"))  # stable: the first test split comes first
        value = own[0]["metrics"].get(metric) if own else None
    if value is None:
        raise UserError(_why(measure, result))
    return float(value)


def _why(measure: str, result: Mapping[str, Any]) -> str:
    rows = result["results"]
    if rows and measure in ("replaced", "similarity") and not rows[0]["metrics"].get("succeeded", 1):
        return "no attack succeeded"
    if rows and not rows[0]["metrics"].get("attacked", 1):
        return "no example could be attacked"
    return f"the result has no {measure}"
