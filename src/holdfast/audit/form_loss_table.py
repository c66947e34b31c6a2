"""The tables of an audit's forms of vectors: what each loses against the plain vectors, item by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from holdfast.audit.item_names import item_name
from holdfast.forms import FLOAT32, form_of
from holdfast.results import digits_of

_ROWS = 8
"""Items per form that are shown: those that lose most."""

_Loss = tuple[Mapping[str, Any], str, Mapping[str, Any]]
"""A row, its metric, and the difference to the plain row."""


def form_loss_tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table for each form: the items that lose most by it, with paired 95 % intervals, and how many others."""
    for form in dict.fromkeys(filter(None, map(form_of, rows))):
        losses = sorted(_losses([row for row in rows if form_of(row) == form]), key=lambda each: _scaled(*each[1:]))
        if losses:
            yield _table(form, losses)


def _losses(rows: Sequence[Mapping[str, Any]]) -> Iterator[_Loss]:
    for row in rows:
        found = row.get("against", {}).get(FLOAT32, {})
        metric = next((name for name in found if name != "n"), None)
        if metric is not None:
            yield row, metric, found[metric]


def _scaled(metric: str, found: Mapping[str, Any]) -> float:
    """Return the difference on the scale from 0 to 1."""
    return float(found["difference"]) / (1.0 if digits_of(metric, 1) == 3 else 100.0)


def _table(form: str, losses: Sequence[_Loss]) -> Table:
    worse, better = (sum(sign * found[end] > 0.0 for *_, found in losses) for sign, end in ((-1, "high"), (1, "low")))
    same = len(losses) - worse - better
    table = Table(
        title=f"as {form}, {losses[0][0]['vectors']['bytes']:,} bytes a vector: of {len(losses)} items {worse} lose, "
        f"{better} gain, {same} do not differ (95 %)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("")
    for name in ("number", form, "difference", "95 %"):
        table.add_column(name, justify="right")
    for row, metric, found in losses[:_ROWS]:
        digits = digits_of(metric, 1)
        values = [f"{found[name]:+.{digits}f}" for name in ("difference", "low", "high")]
        name = item_name({**row, "form": None})
        score = row["metrics"].get(metric)
        table.add_row(
            name,
            metric.replace("_", " "),
            "-" if score is None else f"{score:.{digits}f}",
            values[0],
            f"{values[1]} to {values[2]}",
        )
    return table
