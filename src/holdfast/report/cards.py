"""Report cards of audits, and the changes that a hardening made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.audit.card import Column, column_of, worst_first
from holdfast.audit.item_names import item_name
from holdfast.report.elements import Table, TableCell
from holdfast.report.result_sources import ReportSource
from holdfast.results import digits_of, p_shown

# The same as in holdfast.audit.verdicts, which takes seconds to import; a report is made from files alone.
VERDICTS = ("holds", "bends", "breaks", "too few", "absent")


def audit_cards(source: ReportSource) -> tuple[Table, ...]:
    """Return the tables of an audit: what should hold, and what should move if that was measured; the worst first."""
    sides: tuple[tuple[Column, str], ...] = (("hold", "should hold"), ("move", "should move"))
    return tuple(audit_card(source, side, title) for side, title in sides if any(_of_side(source, side)))


def _of_side(source: ReportSource, side: Column) -> list[Mapping[str, Any]]:
    absent = [row for row in source.rows if column_of(row) == side and row["verdict"] == "absent"]
    return [*worst_first(source.rows, side), *absent]


def audit_card(source: ReportSource, side: Column, title: str) -> Table:
    """Return a table of one side of an audit with numbers and verdicts."""
    rows = []
    for row in _of_side(source, side):
        headline = str(row["headline"])
        value = _number(row["metrics"], headline, headline) if headline in row["metrics"] else TableCell("–")
        name = "–" if row["headline"] is None else headline.replace("_", " ")
        rows.append((_item(row), _verdict(str(row["verdict"])), value, TableCell(name), TableCell(str(row["told"]))))
    columns = ("item", "verdict", "value", "number", "in words")
    name = f"audit-{source.number}" + ("-move" if side == "move" else "")
    return Table(name, f"Report card of {source.label}: {title}", columns, tuple(rows), words=(1, 3, 4))


def hardening_table(source: ReportSource) -> Table:
    """Return a table of an audit's items before and after a hardening, with their paired differences."""
    rows = []
    for row in source.rows:
        metrics, name = row["metrics"], str(row["metric"])
        sides = (_number(metrics, side, name) for side in ("before", "after"))
        paired = "difference" in metrics and "p" in metrics
        difference = _number(metrics, "difference", name, "+") if paired else TableCell("–")
        p = TableCell(p_shown(metrics["p"]) if paired else "–")
        verdicts = [_verdict(str(verdict)) for verdict in row["verdicts"]] or [TableCell("–"), TableCell("–")]
        rows.append((_item(row), TableCell(name.replace("_", " ")), *sides, difference, p, *verdicts))
    columns = ("item", "number", "before", "after", "difference", "p", "verdict before", "after")
    note = "95 % intervals. Differences are paired, over the same texts. Lower is better for success rates, higher for "
    note += "all other numbers except the cosine of different texts."
    title = f"Hardening: {source.label}"
    return Table(f"harden-{source.number}", title, columns, tuple(rows), words=(1, 6, 7), note=note)


def _item(row: Mapping[str, Any]) -> TableCell:
    return TableCell(item_name(row))


def _verdict(verdict: str) -> TableCell:
    return TableCell(verdict, verdict=verdict if verdict in VERDICTS else "absent")


def _number(metrics: Mapping[str, Any], name: str, metric: str, sign: str = "") -> TableCell:
    """Return a number with its interval; ``metric`` decides the digits."""
    digits = digits_of(metric, 1)
    low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
    between = " to " if sign else "–"
    interval = "" if low is None or high is None else f"{low:{sign}.{digits}f}{between}{high:{sign}.{digits}f}"
    return TableCell(f"{metrics[name]:{sign}.{digits}f}", interval, "95 % interval" if interval else "")
