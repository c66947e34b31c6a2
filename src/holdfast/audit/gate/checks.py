"""The checks of a gate: its conditions, and, unless one is about the baseline, that no main metric is worse there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.audit.gate.baseline_differences import AgainstBaseline, BaselineDifference
from holdfast.audit.gate.conditions import Condition, P, parse_condition
from holdfast.audit.gate.measurements import Measured, check_item, measured, value_of
from holdfast.errors import UserError
from holdfast.evaluation.pairing.compare_inputs import ComparedResult
from holdfast.evaluation.retrieval_table import is_lexical
from holdfast.results import read_with_state


@dataclass(frozen=True)
class Check:
    """The outcome of one condition.

    Attributes:
        item: the item.
        metric: its metric.
        condition: the condition, as it was written, or that of a gate without conditions.
        failed: True if the condition is met, so that the gate fails; None if it could not be judged.
        message: the finding, in one line.
        values: ``value``, ``baseline`` and ``p``, those that are known.
    """

    item: str
    metric: str
    condition: str
    failed: bool | None
    message: str
    values: Mapping[str, float]


def read_source(path: Path) -> ComparedResult:
    """Read a result file.

    Raises:
        UserError: it is not a result.
    """
    result, state = read_with_state(path)
    return ComparedResult(path, result, state == "changed")


def parse_conditions(words: Iterable[str], against: Path | None, items: Iterable[str] = ()) -> list[Condition]:
    """Read the conditions of a gate, before anything is measured.

    Args:
        words: the conditions.
        against: the baseline, if one is given.
        items: the names of the items, if they are known.

    Raises:
        UserError: one is not a condition, names no item, or needs a baseline that is not given.
    """
    conditions, known = [parse_condition(each) for each in words], list(items)
    for condition in conditions:
        if condition.against_baseline and against is None:
            raise UserError(f"condition {condition.text!r} needs a baseline: --against BASELINE.json")
        if known:
            check_item(condition, known)
    return conditions


def run_checks(
    result: ComparedResult, conditions: Sequence[Condition], baseline: ComparedResult | None
) -> tuple[list[Check], list[str]]:
    """Judge conditions on a result; return their outcomes, and lines about what was not compared.

    If no condition is about the baseline, the main metric of each item must not be worse than the baseline's, either
    (p < `P`, paired; items without pairs: 95 % intervals that do not overlap).

    Raises:
        UserError: an item or metric of a condition does not exist, or result and baseline cannot be compared.
    """
    rows = measured(result.result, *(() if baseline is None else (baseline.result,)))
    if not conditions and baseline is None:
        raise UserError("nothing to check: give --against BASELINE.json, or conditions as --fail-if CONDITION")
    against = None if baseline is None else AgainstBaseline(result, baseline)
    checks = [_check(condition, rows, against) for condition in conditions]
    if against is not None and not any(condition.against_baseline for condition in conditions):
        checks += _main_metrics(against)
    return checks, against.notes if against is not None else []


def _check(condition: Condition, rows: Mapping[str, Measured], against: AgainstBaseline | None) -> Check:
    name, value = f"{condition.item}.{condition.metric}", value_of(condition, rows)
    if value is None:
        message = f"{name} was not measured ({rows[condition.item].reason})"
        return Check(condition.item, condition.metric, condition.text, True, message, {})
    if condition.against_baseline:
        assert against is not None  # checked before
        found = against.difference(condition.item, condition.metric)
        if isinstance(found, str):
            raise UserError(f"condition {condition.text!r} cannot be judged: {found}")
        return _compared(condition.item, condition.metric, condition.text, found, condition.number)
    failed = condition.holds(value)
    message = f"{name} is {value:.5g}" + _few(rows[condition.item].row)
    return Check(condition.item, condition.metric, condition.text, failed, message, {"value": value})


def _few(row: Mapping[str, Any]) -> str:
    """Return a remark if an item has too few texts for a verdict; the condition is about the number all the same."""
    return f" (too few texts for a verdict: n = {row['n']:,})" if row.get("verdict") == "too few" else ""


def _compared(item: str, metric: str, text: str, found: BaselineDifference, p: float) -> Check:
    message = f"{item}.{metric} is {found.value:.5g}, the baseline's {found.baseline:.5g} ({found.how})"
    values = {"value": found.value, "baseline": found.baseline}
    if found.p is not None:
        values["p"] = found.p
    return Check(item, metric, text, found.fails(p), message, values)


def _main_metrics(against: AgainstBaseline) -> list[Check]:
    """Check the main metric of each item of the result or the baseline, but for BM25, which has no model."""
    checks = []
    every = {**against.baseline, **against.rows}
    for name in (name for name, each in every.items() if not is_lexical(each.row)):
        headlines = [rows[name].headline for rows in (against.baseline, against.rows) if name in rows]
        paired = against.paired_metrics(name)
        metric = next((headline for headline in headlines if headline), paired[0] if paired else None)
        if metric is None:
            continue
        text = f"{name}.{metric} worse than baseline, p < {P:g}"
        found = against.difference(name, metric)
        if isinstance(found, str):
            checks.append(Check(name, metric, text, None, f"{name}.{metric} is not comparable: {found}", {}))
        else:
            checks.append(_compared(name, metric, text, found, P))
    if all(check.failed is None for check in checks):
        reasons = "; ".join(check.message for check in checks[:3]) or "neither has a main metric"
        raise UserError(f"nothing of the result can be compared with the baseline: {reasons}")
    return checks


def rows_of(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return the outcomes as rows of a result of the kind "check"."""
    return [
        {
            "task": check.item,
            "split": "all",
            "n": 1,
            "metric": check.metric,
            "condition": check.condition,
            "failed": check.failed,
            "told": check.message,
            "metrics": dict(check.values),
        }
        for check in checks
    ]
