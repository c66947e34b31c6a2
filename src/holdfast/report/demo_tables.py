"""The demo of a hardening in a report: retrieval and the report card, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.report.elements import Table, TableCell
from holdfast.report.result_sources import ReportSource
from holdfast.results import digits_of

_RETRIEVAL = ("queries", "n", "before", "after", "difference", "remark")
_SIDES = {"hold": "should hold", "move": "should move"}


def is_demo(source: ReportSource) -> bool:
    """Return True for the result of a demo of a hardening."""
    return source.kind == "demo" and isinstance(source.result.get("retrieval"), list)


def demo_tables(source: ReportSource) -> tuple[Table, ...]:
    """Return the tables of a demo: retrieval, and each side of the card."""
    rows: Sequence[Mapping[str, Any]] = source.result["retrieval"]
    retrieval = Table(
        f"demo-retrieval-{source.number}",
        "Questions that find their passage at the first place, %",
        ("questions", "number", "before", "after", "difference", ""),
        tuple((TableCell(str(row["queries"])), TableCell(f"{row['n']:,}"), *_numbers(row, 1)) for row in rows),
        words=(5,),
        note="The questions are encoded by the model before and after the hardening, the passages by the original. "
        "95 % intervals, paired by question. typing: in as many words as people mistype; typing=0.2: in a fifth.",
    )
    return (retrieval, *(_card(source, side) for side in _SIDES))


def _card(source: ReportSource, side: str) -> Table:
    rows = []
    for row in source.result["card"]:
        if row["side"] == side:
            metric = str(row["metric"])
            first = (TableCell(str(row["item"])), TableCell(metric.replace("_", " ")), TableCell(f"{row['n']:,}"))
            rows.append((*first, *_numbers(row, digits_of(metric, 1))))
    columns = ("item", "number", "texts", "before", "after", "difference", "")
    title = f"Report card before and after: what {_SIDES[side]}"
    return Table(f"demo-{side}-{source.number}", title, columns, tuple(rows), words=(1, 6))


def _numbers(row: Mapping[str, Any], digits: int) -> tuple[TableCell, ...]:
    difference = TableCell("–")
    if "difference" in row:
        ends = [row.get(name) for name in ("low", "high")]
        interval = "" if None in ends else f"{ends[0]:+.{digits}f} to {ends[1]:+.{digits}f}"
        difference = TableCell(f"{row['difference']:+.{digits}f}", interval, "95 % interval" if interval else "")
    values = (TableCell(f"{row[name]:.{digits}f}") for name in ("before", "after"))
    return (*values, difference, TableCell(str(row["remark"])))
