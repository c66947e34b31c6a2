"""The table of retrieval for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from holdfast.data.beir import CLEAN

_SHOWN = "recall@1"
"""The metric whose difference to the clean queries is shown."""


def version_name(split: str) -> str:
    """Return the short name of a file of queries: "clean", "keyboard"."""
    return "clean" if split == CLEAN else split.removeprefix(CLEAN).lstrip("- ")


def retrieval_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of one collection as a table: a line for each system and file of queries."""
    first = rows[0]
    counts = sorted({row["n"] for row in rows})
    queries = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    lines = [f"{first['data']}, qrels {first['qrels']}: {queries} queries, {first['documents']:,} documents; ×100"]
    if left := max(row["without_relevant"] for row in rows):
        lines.append(f"left out: {left:,} queries without a relevant document")
    if any("clean" in row["against"] for row in rows):
        lines.append(f"difference of {_SHOWN} to the clean queries, 95 % interval; nDCG and MRR at 10")
    table = Table(caption="\n".join(lines), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("queries")
    for name in (_SHOWN, "difference", "@10", "@100", "nDCG", "MRR"):
        table.add_column(name, justify="right")
    systems = list(dict.fromkeys(row["system"] for row in rows))
    for system in systems:
        if len(systems) > 1:
            table.add_row(system, style="bold")
        for row in rows:
            if row["system"] == system:
                table.add_row(version_name(row["split"]), *_cells(row))
        table.add_section()
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    metrics = row["metrics"]
    shown = {name: f"{metrics[name]:.1f}" for name in ("recall@1", "recall@10", "recall@100", "ndcg@10", "mrr@10")}
    found = row["against"].get("clean", {}).get(_SHOWN)
    own, difference = shown.pop(_SHOWN), ""
    if found:
        difference = f"{found['difference']:+.1f} ({found['low']:+.1f}, {found['high']:+.1f})"
    return [own, difference, *shown.values()]


def is_lexical(row: Mapping[str, Any]) -> bool:
    """Return True for a row of results of BM25, in which no model takes part."""
    return str(row.get("system")).startswith("bm25")
