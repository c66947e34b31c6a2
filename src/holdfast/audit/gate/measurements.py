"""The measurements of a result by the names that conditions use."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.audit.gate.conditions import Condition
from holdfast.audit.item_names import item_name
from holdfast.errors import UserError, did_you_mean
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval_systems import ENCODER
from holdfast.result_layout import AUDIT_ITEM

_WHOLE = ("all", "test", "dev")
_BETWEEN_WORDS = re.compile(r"\s+|(?<!dim)=")  # "typing=0.1" of a noise; the "=" of a form, dim=256, stays
_HEADLINES = ("spearman", "accuracy", "success_rate", "recall@1", "ndcg@10", "mrr@10")
"""Main metrics of rows that name none, the first that a row has."""


@dataclass(frozen=True)
class Measured:
    """A row of a result.

    Attributes:
        name: the item, as conditions name it.
        row: the row.
    """

    name: str
    row: Mapping[str, Any]

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics of the row."""
        metrics: Mapping[str, float] = self.row["metrics"]
        return metrics

    @property
    def headline(self) -> str | None:
        """The main metric; None for an item that was not measured."""
        if "headline" in self.row:
            named: str | None = self.row["headline"]
            return named
        return next((name for name in _HEADLINES if name in self.metrics), None)

    @property
    def reason(self) -> str:
        """The reason why the item has no metrics, or not this one."""
        if "told" in self.row and not self.metrics:
            return str(self.row["told"])
        undefined = self.row.get("undefined")
        return f"undefined: {', '.join(undefined)}" if undefined else "its row has no such metric"


def measured(result: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Measured]:
    """Return the rows of a result by name.

    The name of an item of an audit is that on the card (``typos``, ``case.lower``); that of another row is its task,
    the collection of queries if these results have several, its split unless it is the whole of the data (``dev`` is
    named where these results have the task's test split too), the recipe of
    an attack, the system of a search unless it is the encoder alone, the model whose adversarial texts were tried, and
    the form of the vectors, with dots. Blanks and "=" of the noise in a split are "-".

    Args:
        result: the result.
        others: further results, such as a baseline, whose rows have names of the same parts.

    Raises:
        UserError: the result has no rows, or two of one name.
    """
    known = [row for each in (result, *others) for row in each["results"]]
    several = len({row.get("data") for row in known if row["task"] == RETRIEVAL}) > 1
    tested = {row["task"] for row in known if row["split"] == "test"}
    rows = [Measured(_name(row, several=several, tested=tested), row) for row in result["results"]]
    if not rows:
        raise UserError("the result holds no rows: nothing can be checked")
    named = {row.name: row for row in rows}
    if len(named) < len(rows):
        twice = next(name for name, count in Counter(row.name for row in rows).items() if count > 1)
        raise UserError(f"the result holds {twice} twice: measure it once, or make two results of it")
    return named


def _name(row: Mapping[str, Any], *, several: bool, tested: Collection[str]) -> str:
    if str(row["task"]).startswith(AUDIT_ITEM):
        return item_name(row)
    system, split = row.get("system"), row["split"]
    whole = split in _WHOLE and not (split == "dev" and row["task"] in tested)
    parts = (
        row["task"],
        row.get("data") if several and row["task"] == RETRIEVAL else None,
        None if whole else split,
        row.get("recipe"),
        None if system == ENCODER.name else system,
        row.get("made_against"),
        row.get("form"),
    )
    return _BETWEEN_WORDS.sub("-", ".".join(str(part) for part in parts if part))


def check_item(condition: Condition, names: Iterable[str]) -> None:
    """Refuse a condition on an item that is none of the names.

    Raises:
        UserError: with the nearest name.
    """
    known = list(names)
    if condition.item not in known:
        column = condition.column - len(condition.item) - 1
        raise UserError(
            f"condition {condition.text!r}, column {column}: there is no item {condition.item!r}"
            f"{did_you_mean(condition.item, known)}; items: {', '.join(known)}"
        )


def value_of(condition: Condition, rows: Mapping[str, Measured]) -> float | None:
    """Return the value that a condition is about; None if the item was not measured.

    Raises:
        UserError: there is no such item or metric; the message names the nearest.
    """
    check_item(condition, rows)
    row = rows[condition.item]
    if condition.metric in row.metrics:
        return row.metrics[condition.metric]
    if not row.metrics or condition.metric in row.row.get("undefined", ()):
        return None
    known: Sequence[str] = list(row.metrics)
    raise UserError(
        f"condition {condition.text!r}, column {condition.column}: {condition.item} has no metric {condition.metric!r}"
        f"{did_you_mean(condition.metric, known)}; metrics: {', '.join(known)}"
    )
