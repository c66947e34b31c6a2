"""The rows of an audit's result, one for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.audit.verdicts import Judgement, Verdict


class NotMeasured(Exception):
    """The reason why an item cannot be measured with this model, these texts or these resources."""


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
    verdict: Verdict | Judgement,
    message: str,
    *,
    headline: str | None,
    examples: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Item:
    """Create an item; ``more`` are further keys of its row.

    With too few texts the row has ``between``, the two verdicts, ``value_verdict`` and ``needed``; see `Judgement`.
    """
    if isinstance(verdict, Judgement):
        if verdict.between is not None:
            needed, either = _rounded(verdict.needed), " or ".join(verdict.between)
            message += f"; n = {n:,} is too few to tell whether it {either} (about {needed:,} would)"
            more |= {"between": list(verdict.between), "value_verdict": verdict.of_value, "needed": needed}
        verdict = verdict.verdict
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


def _rounded(count: int) -> int:
    """Return a number rounded up to two digits."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit
