"""What is said of equal sentences in a training: which share of a batch has an equal one, and how that is treated."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.training.log import DUPLICATES, IN_QUEUE, Record, curve

LARGE = 0.05
"""A share that is said before the training, too, and is worth a look."""
_PLACES = {DUPLICATES: "in it", IN_QUEUE: "in the queue"}


def logged_shares(log: Sequence[Record]) -> dict[str, float]:
    """Return the mean of each share over a run's records, each of one batch, by its name in the log."""
    told = {name: [share for _, share in curve(log, name)] for name in _PLACES}
    return {name: statistics.fmean(shares) for name, shares in told.items() if shares}


def told_before(share: float, batches: int, duplicates: str) -> str:
    """Return the line on the first batches of a run; empty where the share is not large."""
    if share < LARGE:
        return ""
    where = "the first batch" if batches == 1 else f"the first {batches} batches"
    return f"{_percent(share)} of the sentences in {where} have an equal one in their batch; {_treated(duplicates)}"


def told_after(shares: Mapping[str, float], options: Mapping[str, Any]) -> str:
    """Return the line on a whole run; empty where no sentence had an equal one.

    Args:
        shares: as `logged_shares` gives them.
        options: of the method.
    """
    found = [(_percent(share), _PLACES[name]) for name, share in shares.items() if name in _PLACES and share > 0]
    if not found:
        return ""
    (first, place), *others = found
    told = f"{first} of the sentences in a batch have an equal one {place}"
    told += "".join(f", {share} one {place}" for share, place in others)
    return f"{told}; {_treated(str(options.get('duplicates', 'mask')))}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def _treated(duplicates: str) -> str:
    if duplicates == "mask":
        return "they are no negatives of each other"
    return "they count as any others (duplicates=keep)"
