"""Measurements before and after a hardening: paired differences, and a remark on each in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.comparison import difference, resample
from holdfast.evaluation.samples import Means

LOWER_IS_BETTER = ("success_rate", "neighbour_changed", "different_texts")
OF_HUNDRED = ("found", "found@1", "spearman")
AIMED = ("typing", "typos", "noise", "adversarial-typos", "neighbours")
"""Items of the audit that the training of a hardening resembles: texts with typing errors, and their neighbours."""
IMPROVED, NOT_AIMED, KEPT = "better", "hardening does not aim at this", "the original was kept"
TRAINED, NEW_ENTRIES, ORIGINAL = "trained weights", "new entries of the vocabulary", "the original"
"""The weights that a hardening may keep."""

_SHOWN = 5e-4
"""Differences below it, as a share of the largest value, are not shown."""

Values = npt.NDArray[Any]


def paired(before: Values, after: Values, *, seed: int, name: str) -> dict[str, float]:
    """Return ``{before, after, difference, low, high, p}`` of the means of paired values, (n,) each.

    The interval (95 %) is the bootstrap's over the n items.
    """
    made = difference([resample(Means(np.stack([before, after])), seed=seed, name=name)], 1)
    numbers = {"before": made.baseline, "after": made.other, "difference": made.difference}
    return {**numbers, "low": made.low, "high": made.high, "p": made.p}


def remark(
    row: Mapping[str, Any], *, aimed: bool, meant_to_stay: bool = False, lower_is_better: bool = False, best: float
) -> str:
    """Return in words whether a row improved, and if not, why not.

    Args:
        row: ``{n, before, after}``, and if it was paired ``{difference, low, high}``.
        aimed: whether hardening aims at the row.
        meant_to_stay: whether the row is one that hardening should leave as it was.
        lower_is_better: whether lower values are better.
        best: the best possible value.
    """
    sign = -1.0 if lower_is_better else 1.0
    low, high = (row.get(name) for name in ("low", "high"))
    ends = None if low is None or high is None else sorted((sign * low, sign * high))
    if ends is not None and ends[0] > 0:
        return IMPROVED
    if ends is not None and ends[1] < 0:
        return f"worse: {'the price of the other rows' if aimed or meant_to_stay else NOT_AIMED}"
    if all(abs(row[when] - best) < _SHOWN * max(best, 1.0) for when in ("before", "after")):
        return "cannot be better"
    if meant_to_stay:
        return f"meant to stay: no significant change on {row['n']:,} texts"
    if not aimed:
        return NOT_AIMED
    return f"no significant change on {row['n']:,} texts"


def retrieval_row(name: str, recalls: tuple[Values, Values], *, clean: bool, copies: int, seed: int) -> dict[str, Any]:
    """Return a row ``{queries, n, copies, before, after, difference, low, high, p, remark}`` in recall@1, %.

    Args:
        name: the name of the questions.
        recalls: the share of copies of each question that find its passage first, before and after: (n,) each, 0 to 1.
        clean: whether the questions have no typing errors.
        copies: copies of each question.
        seed: the seed of the intervals.
    """
    before, after = (100.0 * values for values in recalls)
    row = {"queries": name, "n": len(before), "copies": copies, **paired(before, after, seed=seed, name=name)}
    return {**row, "remark": remark(row, aimed=not clean, meant_to_stay=clean, best=100.0)}


def card_row(row: Mapping[str, Any], side: str, item: str) -> dict[str, Any]:
    """Return a row ``{side, item, metric, n, before, after, …, remark}`` from one of the result of a hardening."""
    metrics, lower = row["metrics"], row["metric"] in LOWER_IS_BETTER
    own = {"before": metrics["before"], "after": metrics["after"]}
    if "difference" in metrics:
        own |= {"difference": metrics["difference"]}
        own |= {end: metrics[f"difference_{end}"] for end in ("low", "high") if f"difference_{end}" in metrics}
    made = {"side": side, "item": item, "metric": row["metric"], "n": row["n"], **own, "verdicts": row["verdicts"]}
    best = 0.0 if lower else 100.0 if row["metric"] in OF_HUNDRED else 1.0
    return {**made, "remark": remark(made, aimed=item in AIMED, lower_is_better=lower, best=best)}


def meaning_row(kind: str, nearer: tuple[Values, Values], *, seed: int) -> dict[str, Any]:
    """Return a row of the card: P(the other wording is nearer than the other meaning), before and after.

    Args:
        kind: what was changed, or "meaning" for all.
        nearer: for each text, whether the other wording is nearer, before and after: (n,) each.
        seed: the seed of the intervals.
    """
    numbers = paired(*nearer, seed=seed, name=kind)
    row = {"side": "move", "item": kind, "metric": "p_hold_nearer", "n": len(nearer[0]), **numbers, "verdicts": []}
    return {**row, "remark": remark(row, aimed=False, best=1.0)}
