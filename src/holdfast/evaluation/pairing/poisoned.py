"""Samples of poisoning: whether a held-out query finds one of the made passages, query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.evaluation.samples import Shares

TASK = "poison"
_DEPTH = 10  # of the success rate of a row


def not_paired(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the reason why rows of several models cannot be paired by query; None if they can."""
    if any("ranks" not in row or "held_out_sha256" not in row for row in rows):
        return "it is of an earlier version, without a value of each query: measure it again"
    if any(row["held_out_sha256"] != rows[0]["held_out_sha256"] for row in rows[1:]):
        return "measured with other queries"
    return None


def poisoned_sample(rows: Sequence[Mapping[str, Any]]) -> Shares:
    """Return the sample of the same held-out queries: True where a made passage is among the first ten."""
    return Shares([[rank <= _DEPTH for rank in row["ranks"]] for row in rows])
