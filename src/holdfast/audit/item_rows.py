"""The rows of an audit's result, one for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.metrics import exact_interval_if_unanimous
from holdfast.audit.verdicts import Verdict

RESAMPLES = 2000
_RESAMPLES_AT_ONCE = 100


@dataclass(frozen=True)
class Item:
    """The result of one audit item.

    Attributes:
        row: its row of ``results``: ``{task, split, n, metrics, verdict, headline, told, …}``; ``headline`` is the
            main metric of the item, ``told`` a sentence about the finding.
        examples: the texts of the item, as rows of :class:`holdfast.attacks.examples.Attempt` with the key ``item``.
    """

    row: dict[str, Any]
    examples: list[dict[str, Any]] = field(default_factory=list)


def item(
    task: str,
    split: str,
    n: int,
    metrics: Mapping[str, float],
    verdict: Verdict,
    message: str,
    *,
    headline: str | None,
    examples: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Item:
    """Create an item; ``more`` are further keys of its row."""
    row = {
        "task": task,
        "split": split,
        "n": n,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "verdict": verdict,
        "headline": headline,
        "told": message,
        **more,
    }
    return Item(row, [{**example, "item": task} for example in examples])


def absent(
    task: str, reason: str, split: str = "all", *, examples: Sequence[Mapping[str, Any]] = (), **more: Any
) -> Item:
    """Create an item that could not be measured, with the reason; ``more`` are further keys of its row."""
    return item(task, split, 0, {}, "absent", reason, headline=None, examples=examples, **more)


def bootstrap(values: npt.ArrayLike, seed: int) -> tuple[float, float]:
    """Return the 95 % bootstrap interval (percentiles, `RESAMPLES` resamples) of the mean of n numbers."""
    numbers = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    # In parts, since all resamples at once would take RESAMPLES times n numbers.
    means = [
        numbers[rng.integers(len(numbers), size=(_RESAMPLES_AT_ONCE, len(numbers)))].mean(axis=1)
        for _ in range(RESAMPLES // _RESAMPLES_AT_ONCE)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def rate_interval(outcomes: npt.NDArray[np.bool_], seed: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate: bootstrap, or exact if all outcomes are equal."""
    return exact_interval_if_unanimous(outcomes.tolist()) or bootstrap(outcomes, seed)
