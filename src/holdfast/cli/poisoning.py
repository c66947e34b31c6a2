"""Output of ``holdfast attack --goal poison`` for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.console import print_whole, table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ROWS = {
    "success": "made passages",
    "begin": "the same at their begin",
    "ordinary": "as many documents",
    "random": "as many random texts",
}


def print_poisoning(out: Console, result: Mapping[str, Any], output: Path | None) -> None:
    """Print the share of held-out queries that find a made passage, beside controls, and what detectors find."""
    goal = result["protocol"]["goal"]
    for row in result["results"]:
        out.print(_success_table(result, row))
        out.print(_detected(row["metrics"]), highlight=False)
    asked, searched = goal["queries"], goal["searched"]
    out.print(
        f"passages made for {asked['fitted']:,} queries of {asked['source']}, measured on {asked['held_out']:,} "
        f"others, among {searched['different']:,} documents of {searched['source']}",
        highlight=False,
    )
    for note in result["protocol"].get("notes", ()):
        out.print(note, highlight=False)
    if output is not None:
        print_whole(out, f"see the passages with: holdfast show {shlex.quote(str(output))} --outcome all")


def _success_table(result: Mapping[str, Any], row: Mapping[str, Any]) -> Table:
    metrics, depths = row["metrics"], result["protocol"]["goal"]["depths"]
    cells = [
        [name, *(_share(metrics, f"{kind}@{k}") for k in depths)]
        for kind, name in _ROWS.items()
        if f"{kind}@{depths[0]}" in metrics
    ]
    headers = [f"top {k}" for k in depths]
    title = f"{row['recipe']}: held-out queries that find one of {metrics['passages']:.0f} passages, % (95 %)"
    return table(["", *headers], cells, title=title, right=headers)


def _share(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:.1f} ({metrics[f'{name}_low']:.1f}-{metrics[f'{name}_high']:.1f})"


def _detected(metrics: Mapping[str, float]) -> str:
    """Describe the similarities and the detectors of a recipe in a few lines."""
    before, after, held = (metrics[name] for name in ("similarity_before", "similarity_after", "held_out_similarity"))
    lines = [
        f"mean similarity to the fitted queries {before:.3f} before, {after:.3f} after; nearest passage of a held-out "
        f"query {held:.3f}; {metrics['queries']:,.0f} texts encoded per passage"
    ]
    for name, label in (("hub", "k-occurrence"), ("perplexity", "perplexity")):
        if f"{name}_recall" in metrics:
            lines.append(
                f"{label} above {metrics[f'{name}_threshold']:,.1f} detects {_share(metrics, f'{name}_recall')} % of "
                f"them, with {_share(metrics, f'{name}_false_alarms')} % false alarms; ordinary passages have "
                f"{metrics[f'{name}_clean']:,.1f}, made ones {metrics[f'{name}_made']:,.1f}"
            )
    return "\n".join(lines)
