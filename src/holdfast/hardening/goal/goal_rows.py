"""Rows of a result on the old index: what is found before and after, with paired 95 % intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.intervals import mean_interval, rate_interval
from holdfast.evaluation.samples import Means, Sample, Shares
from holdfast.hardening.goal.choice_rule import Change, change
from holdfast.hardening.goal.goal_queries import CLEAN, TEXTS
from holdfast.hardening.goal.measured_goal import Outcomes
from holdfast.hardening.sts_cost import difference_metrics

TASK = "old index"
HOLD_MOVE = "hold/move"


def old_index_rows(before: Outcomes, after: Outcomes, *, system: str = "", seed: int = 0) -> list[dict[str, Any]]:
    """Return a row for each group and version of queries, and one for the pairs of changed texts.

    ``metrics`` has ``{before, after, difference}`` of recall@1 ×100 with intervals and ``p``. The row of clean queries
    also has, of all clean queries, the mean ``cosine`` to the original encoder's vector, and the percentages
    ``same_top1`` and ``same_top10`` of documents that the original finds too.

    Args:
        before: what the original encoder finds.
        after: what the other finds, with the same queries.
        system: name of what is put before both encoders, such as "spelling"; it is added to ``split``.
        seed: seed of the intervals.
    """
    rows = [_row(CLEAN, 100.0 * before.clean(), 100.0 * after.clean(), "recall@1", seed, system)]
    if after.nearness is not None:
        rows[0]["metrics"] |= {
            "cosine": float(after.nearness.cosine.mean()),
            "same_top1": 100.0 * float(after.nearness.same_top1.mean()),
            "same_top10": 100.0 * float(after.nearness.same_top10.mean()),
        }
    for (group, version), found in before.found.items():
        if version == CLEAN:
            continue  # those of labelled groups are the first row; by definition, the original finds all others
        split = version if group == TEXTS else f"{group} {version}"
        rows.append(_row(split, 100.0 * found, 100.0 * after.found[group, version], "recall@1", seed, system))
    if before.nearer.size:
        rows.append(_row(HOLD_MOVE, before.nearer, after.nearer, "p_hold_nearer", seed, system))
    return [row for row in rows if row["n"]]


def _row(
    split: str, before: npt.NDArray[Any], after: npt.NDArray[Any], metric: str, seed: int, system: str
) -> dict[str, Any]:
    """Return a row from the value of each item; values of a recall are 0 or 100."""
    values = np.stack([before, after]).astype(np.float64)
    shares = metric == "recall@1"
    sample: Sample = Shares(values > 0.0) if shares else Means(values)
    metrics: dict[str, float] = {}
    for name, own in zip(("before", "after"), values, strict=True):
        metrics[name] = float(own.mean()) if own.size else 0.0
        if own.size:
            low, high = rate_interval(own > 0.0, seed=seed) if shares else mean_interval(own, seed=seed)
            scale = 100.0 if shares else 1.0
            metrics |= {f"{name}_low": scale * low, f"{name}_high": scale * high}
    made: Change = change(sample, split, seed)
    return {
        "task": TASK,
        "split": f"{split}, {system}" if system else split,
        "n": values.shape[1],
        "metric": metric,
        "metrics": metrics | difference_metrics(vars(made)),
        "verdicts": [],
        **({"system": system} if system else {}),
    }
