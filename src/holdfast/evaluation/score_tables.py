"""Tables of an evaluation's scores for the terminal, 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from holdfast.evaluation.mteb_names import PREFIX as MTEB
from holdfast.evaluation.sts import average
from holdfast.evaluation.transfer import TRANSFER_TASKS, transfer_average
from holdfast.terminal import visible


def sts_table(rows: Iterable[dict[str, Any]]) -> Table:
    """Return the STS rows as a table: Spearman x100 per task, and the mean if all seven exist."""
    rows = [row for row in rows if "spearman" in row["metrics"]]
    names = [row["task"] if row["split"] in ("test", "all") else f"{row['task']} {row['split']}" for row in rows]
    lines = {
        "score": [f"{row['metrics']['spearman']:.2f}" for row in rows],
        "pairs": [f"{row['n']:,}" for row in rows],
    }
    return _table("Spearman ×100 of cosine similarity", names, lines, average(rows))


def transfer_table(rows: Iterable[dict[str, Any]]) -> Table:
    """Return the transfer rows as a table: accuracy x100 per task, and the mean if all seven exist."""
    rows = [row for row in rows if row["task"] in TRANSFER_TASKS and "accuracy" in row["metrics"]]
    lines = {
        "accuracy": [f"{row['metrics']['accuracy']:.2f}" for row in rows],
        "F1": [f"{row['metrics']['f1']:.2f}" if "f1" in row["metrics"] else "" for row in rows],
        "texts": [f"{row['n']:,}" for row in rows],
    }
    caption = "Accuracy ×100 of a logistic regression on the vectors"
    return _table(caption, [row["task"] for row in rows], lines, transfer_average(rows))


def mteb_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows of mteb's tasks as a table: the main score x100, and the mean over tasks if there are several."""
    table = Table(caption="main scores ×100, as mteb computes them", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("task of mteb", "type", "measure", "samples", "score"):
        table.add_column(name, justify="right" if name in ("samples", "score") else "left", overflow="fold")
    by_task: dict[str, list[float]] = {}
    for row in rows:
        own, score = row["mteb"], 100 * row["metrics"]["main_score"]
        name = row["task"] if row["split"] == "test" else f"{row['task']} {row['split']}"
        by_task.setdefault(row["task"], []).append(score)
        shown = (name.removeprefix(MTEB), own["type"], own["main_score"], f"{row['n']:,}" if row["n"] else "–")
        table.add_row(*(visible(text) for text in shown), f"{score:.2f}")
    if len(by_task) > 1:
        means = [sum(scores) / len(scores) for scores in by_task.values()]
        table.add_row("mean over tasks", "", "", "", f"{sum(means) / len(means):.2f}", style="bold")
    return table


def _table(caption: str, names: Sequence[str], lines: Mapping[str, Sequence[str]], mean: float | None) -> Table:
    """Return a table with a column per task; ``lines``: scores, then further lines, the last one with the sizes."""
    table = Table(caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    if mean is not None:
        table.add_column("Avg.", justify="right", style="bold")
    for number, (name, cells) in enumerate(lines.items()):
        shown = [*cells, f"{mean:.2f}"] if number == 0 and mean is not None else cells
        if any(cells):
            table.add_row(name, *shown, style="dim" if number == len(lines) - 1 else None)
    return table
