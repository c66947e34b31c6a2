"""The order of the report card: what should hold beside what should move, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from holdfast.audit.item_names import item_name
from holdfast.forms import form_of, plain_rows

Row = Mapping[str, Any]
Column = Literal["hold", "move"]

_VERDICT_ORDER = {"breaks": 0, "bends": 1, "too few": 2, "holds": 3}


def column_of(row: Row) -> Column:
    """Return the side of the card that a row is on; checks of the vectors and rows of earlier versions: "hold"."""
    return "move" if row.get("side") == "move" else "hold"


def harm(row: Row) -> float:
    """Return how far an item is from what it should be, 0 to 1, to sort items of the same verdict."""
    metrics, headline = row["metrics"], row["headline"]
    if headline not in metrics:
        return 0.0
    value = float(metrics[headline])
    if headline in ("stability", "p_hold_nearer", "p_entailed_nearer"):
        return 1.0 - value
    if headline in ("success_rate", "neighbour_changed"):
        return value / 100.0
    if headline in ("found", "spearman"):
        return 1.0 - value / 100.0
    return 0.0


def worst_first(rows: Iterable[Row], column: Column) -> list[Row]:
    """Return the measured rows of a side: those that break, that bend, that have too few texts, and that hold.

    Rows on other forms of the vectors are left out.
    """
    own = [row for row in rows if column_of(row) == column and row["verdict"] != "absent" and form_of(row) is None]
    return sorted(own, key=lambda row: (_VERDICT_ORDER.get(row["verdict"], len(_VERDICT_ORDER)), -harm(row)))


def absent_by_reason(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return the names of the items that were not measured, by reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["verdict"] == "absent" and form_of(row) is None:
            found.setdefault(str(row["told"]), []).append(item_name(row))
    return found


def noise_line(rows: Iterable[Row]) -> str | None:
    """Return a line on people's noise beside synthetic noise; None unless both were measured."""
    by_group: dict[str, list[str]] = {}
    for row in plain_rows(rows):
        if "stability" in row["metrics"] and row.get("group") in ("human noise", "synthetic noise"):
            by_group.setdefault(row["group"], []).append(f"{item_name(row)} {row['metrics']['stability']:.3f}")
    if len(by_group) < 2:
        return None
    human, synthetic = (", ".join(by_group[group]) for group in ("human noise", "synthetic noise"))
    return f"stability under people's noise: {human}; under random typing errors: {synthetic}"
