"""The differences of a result to a baseline: paired where both have values for each text, else by their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.audit.gate.directions import better, is_worse
from holdfast.audit.gate.measurements import Measured, measured
from holdfast.errors import UserError
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, Side, recipe_of
from holdfast.evaluation.pairing.rows import compare
from holdfast.forms import form_of
from holdfast.results import p_shown

_PROTOCOL = ("text", "limit", "precision", "examples", "max_words", "share_of_words", "goal", "misspellings")
"""Entries of a protocol that must be equal, and that are not the model's own."""

_LEAST_BOOTSTRAP = 20
"""Pairs below which a bootstrap tells too little: the intervals of all texts are compared instead."""

_SEEDED = ("audit", "attack")
_PAIRED = ("audit", "attack", "transfer")


@dataclass(frozen=True)
class BaselineDifference:
    """The difference of a metric to the baseline.

    Attributes:
        baseline: the baseline's value.
        value: the result's value.
        p: the two-sided p-value; None if the items are not paired.
        worse: the value is worse, whether or not that may be chance. Without pairs: the 95 % intervals do not overlap.
        how: how it was tested, in words.
    """

    baseline: float
    value: float
    p: float | None
    worse: bool
    how: str

    def fails(self, p: float) -> bool:
        """Return True if the value is worse with a p-value below ``p``, or worse by its interval."""
        return self.worse and (self.p is None or self.p < p)


class AgainstBaseline:
    """The comparison of a result with a baseline.

    Args:
        result: the result.
        baseline: the baseline.

    Raises:
        UserError: they differ in more than the model: in their kind, texts, data or settings.
    """

    def __init__(self, result: ComparedResult, baseline: ComparedResult) -> None:
        self.rows = measured(result.result, baseline.result)
        self.baseline = measured(baseline.result, result.result)
        _refuse_different(result, baseline, self.rows, self.baseline)
        self.notes: list[str] = []
        self._paired: dict[tuple[str, str], Mapping[str, Any]] = {}
        if _has_items(result) and _has_items(baseline):
            found, self.notes = compare(Side("the baseline", (baseline,)), Side("the result", (result,)))
            names = {
                (r.row["task"], r.row["split"], recipe_of(r.row), form_of(r.row)): r.name for r in self.rows.values()
            }
            for row in found:
                if row["test"] != "mcnemar" and row["n"] < _LEAST_BOOTSTRAP:
                    continue
                key = (row["task"], row["split"], row.get("recipe"), form_of(row))
                name = names.get(key) or _by_task(names, row)
                self._paired[name, row["metric"]] = row

    def paired_metrics(self, name: str) -> list[str]:
        """Return the metrics of an item that are paired."""
        return [metric for item, metric in self._paired if item == name]

    def difference(self, name: str, metric: str) -> BaselineDifference | str:
        """Return the difference of a metric of an item, or the reason why it cannot be compared."""
        if better(metric) is None:
            return f"the worse direction of {metric} is not known"
        if (row := self._paired.get((name, metric))) is not None:
            values = row["metrics"]
            worse = is_worse(metric, values["difference"])
            how = f"paired on {row['n']:,} items, {row['test']}, p = {p_shown(values['p'])}".replace("= <", "< ")
            return BaselineDifference(values["baseline"], values["other"], values["p"], worse, how)
        return _by_intervals(metric, self.rows.get(name), self.baseline.get(name))


def _by_task(names: Mapping[tuple[Any, ...], str], row: Mapping[str, Any]) -> str:
    """Return the name of a row that pairing gives another recipe than the result: that of its task and split."""
    own = (row["task"], row["split"], form_of(row))
    found = [name for (task, split, _, form), name in names.items() if (task, split, form) == own]
    return found[0] if len(found) == 1 else ""


def _by_intervals(metric: str, row: Measured | None, baseline: Measured | None) -> BaselineDifference | str:
    if row is None or baseline is None:
        return f"the {'result' if row is None else 'baseline'} has no such item"
    for each, where in ((row, "the result"), (baseline, "the baseline")):
        if metric not in each.metrics:
            return f"not measured in {where}: {each.reason}"
    if min(each.row.get("n", 2) for each in (row, baseline)) < 2:
        return "a single text has no interval"
    ends = [each.metrics.get(f"{metric}_{end}") for each in (row, baseline) for end in ("low", "high")]
    if any(end is None for end in ends):
        return "no values of single texts that both have, and no intervals"
    low, high, baseline_low, baseline_high = (end for end in ends if end is not None)
    apart = high < baseline_low if better(metric) == "higher" else low > baseline_high
    how = f"not paired, 95 % intervals {low:.5g} to {high:.5g} and {baseline_low:.5g} to {baseline_high:.5g}"
    return BaselineDifference(baseline.metrics[metric], row.metrics[metric], None, apart, how)


def _has_items(source: ComparedResult) -> bool:
    rows: Sequence[Mapping[str, Any]] = source.result["results"]
    if source.result["kind"] in _PAIRED:
        return any("items" in row or "recipe" in row for row in rows)
    return any("items" in row for row in rows)


def _refuse_different(
    result: ComparedResult,
    baseline: ComparedResult,
    rows: Mapping[str, Measured],
    baseline_rows: Mapping[str, Measured],
) -> None:
    """Refuse a result and a baseline that differ in more than the model.

    Raises:
        UserError: with all that differs.
    """
    mine, other = result.result, baseline.result
    if mine["kind"] != other["kind"]:
        raise UserError(
            f"{result.path} is a result of {mine['kind']}, {baseline.path} of {other['kind']}: compare like with like"
        )
    pairs = {name: (mine["protocol"].get(name), other["protocol"].get(name)) for name in _PROTOCOL}
    pairs["texts"] = (_sha256(mine), _sha256(other))
    if mine["kind"] in _SEEDED:
        pairs["seed"] = (mine["seed"], other["seed"])
    for name in rows:
        if name in baseline_rows:
            both = (rows[name].row.get("data_sha256"), baseline_rows[name].row.get("data_sha256"))
            pairs[f"data of {name}"] = both
    found = [f"{name} ({_brief(a)}, there {_brief(b)})" for name, (a, b) in pairs.items() if a != b]
    if found:
        raise UserError(
            f"{result.path} and the baseline {baseline.path} differ in more than the model: {'; '.join(found)}: "
            "measure both in the same way"
        )


def _sha256(result: Mapping[str, Any]) -> Any:
    texts = result["protocol"].get("texts")
    return texts.get("sha256") if isinstance(texts, dict) else texts


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}…"
