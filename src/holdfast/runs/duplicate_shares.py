"""The shares of duplicate sentences in the batches of a training, and messages on them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.runs.run_log import DUPLICATES, IN_QUEUE, Record, curve

LARGE = 0.05
"""From this share on, duplicates are also reported before the training, and get the level "look"."""
_PLACES = {DUPLICATES: "in it", IN_QUEUE: "in the queue"}


def logged_shares(log: Sequence[Record]) -> dict[str, float]:
    """Return the mean of each share over the records of a run (one batch each), by its name in the log."""
    logged = {name: [share for _, share in curve(log, name)] for name in _PLACES}
    return {name: statistics.fmean(shares) for name, shares in logged.items() if shares}


def duplicates_before(share: float, batches: int, duplicates: str) -> str:
    """Return the message on the first batches of a run; empty if the share is not large."""
    if share < LARGE:
        return ""
    where = "the first batch" if batches == 1 else f"the first {batches} batches"
    return f"{_percent(share)} of the sentences in {where} have an equal one in their batch; {_treated(duplicates)}"


def duplicates_after(shares: Mapping[str, float], options: Mapping[str, Any]) -> str:
    """Return the message on a whole run from its `logged_shares`; empty if there were no duplicates."""
    found = [(_percent(share), _PLACES[name]) for name, share in shares.items() if name in _PLACES and share > 0]
    if not found:
        return ""
    (first, place), *others = found
    message = f"{first} of the sentences in a batch have an equal one {place}"
    message += "".join(f", {share} one {place}" for share, place in others)
    return f"{message}; {_treated(str(options.get('duplicates', 'mask')))}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def _treated(duplicates: str) -> str:
    if duplicates == "mask":
        return "they are no negatives of each other"
    return "they count as any others (duplicates=keep)"
