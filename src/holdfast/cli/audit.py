"""``holdfast audit``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit.audit_settings import AuditSettings
from holdfast.audit.gate.gate_options import GateOptions
from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, table, work_quietly
from holdfast.cli.diff import marked
from holdfast.cli.gate import close_gate, gate_of
from holdfast.cli.verbs import Call, verb
from holdfast.model_lookup import CALL

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = {"breaks": 3, "bends": 1}
"""Number of texts printed per item, by verdict."""


@dataclass(frozen=True)
class GatedAuditSettings(GateOptions, AuditSettings):
    """Settings of an audit with a gate."""


@verb(
    GatedAuditSettings,
    short_help="Report what small changes of a text do to an encoder.",
    panel=AUDIT,
    examples="""
holdfast audit sentence-transformers/all-MiniLM-L6-v2
holdfast audit my-encoder --texts mine.txt --output audit.json
holdfast audit call:my_service:embed --texts mine.txt
holdfast audit my-encoder --fail-if 'typos.stability < 0.85'
""",
)
def audit(settings: GatedAuditSettings, call: Call) -> None:
    """The robustness report card of an encoder: what small changes of a text do to its vector. Needs no labels."""
    from holdfast.audit.audit_run import audit as run

    call.lock(settings.output)
    with work_quietly():
        gate = gate_of(settings)
        result = run(settings, console=call.progress, command=call.command)
    call.finish(result, settings.output, lambda: _print(result, settings.output))
    close_gate(result, settings.output, gate, settings, call)


def _print(result: Mapping[str, Any], output: Path | None) -> None:
    """Print the report card, example texts of the items that fail, and advice."""
    out = console()
    out.print(result["model"])
    out.print(audit_table(result))
    for row in worst_examples(result):
        out.print(marked(row))
    if output is not None:
        out.print(f"all texts: holdfast show {shlex.quote(str(output))}")
    out.print(advice(result))


def audit_table(result: Mapping[str, Any]) -> Table:
    """Create a table with a row per item: metric, value, interval, verdict, description."""
    from holdfast.results import digits_of

    cells = []
    for row in result["results"]:
        metrics, headline = row["metrics"], row["headline"]
        digits = digits_of(headline, 1)
        ends = [metrics.get(f"{headline}_{end}") for end in ("low", "high")]
        value = f"{metrics[headline]:.{digits}f}" if headline in metrics else "-"
        interval = "-" if None in ends else f"{ends[0]:.{digits}f} to {ends[1]:.{digits}f}"
        metric = "-" if headline is None else headline.replace("_", " ")
        cells.append([item_name(row), metric, value, interval, row["verdict"], row["told"]])
    columns = ["item", "metric", "value", "95 %", "verdict", "finding"]
    return table(columns, cells, right=["value", "95 %"])


def item_name(row: Mapping[str, Any]) -> str:
    """Return the name of an item in tables."""
    split = f" ({row['split']})" if row["split"] in ("lower", "upper") else ""
    return str(row["task"]).removeprefix("audit-") + split


def worst_examples(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return example texts of each item that breaks, and one for each that bends: those with the smallest changes."""
    examples: list[Mapping[str, Any]] = []
    counts: dict[str, int] = {}
    for row in result["results"]:
        counts[row["task"]] = max(counts.get(row["task"], 0), _SHOWN.get(row["verdict"], 0))
    for task, count in counts.items():
        succeeded = [row for row in result["examples"] if row["item"] == task and row["outcome"] == "succeeded"]
        # A text may occur in two splits of an item; it is shown once.
        distinct = {row["number"]: row for row in sorted(succeeded, key=_size, reverse=True)}
        examples += sorted(distinct.values(), key=_size)[:count]
    return examples


def _size(row: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the sort key: share of changed words (0 for random changes), then largest movement, then number."""
    share = len(row["changed"]) / max(1, row["words"]) if row["queries"] > 1 else 0.0
    return share, -abs(row["after"]["value"] - row["before"]["value"]), row["number"]


def advice(result: Mapping[str, Any]) -> str:
    """Return one line of advice on the next step."""
    if not any(row["verdict"] in ("bends", "breaks") for row in result["results"]):
        return "every measured item holds; next, audit the model on your own texts: --texts FILE"
    if result["model"].startswith(CALL):
        return (
            "a function cannot be hardened: harden the model behind it with `holdfast harden MODEL`, and audit it again"
        )
    model = shlex.quote(result["model"])
    return f"to harden it: holdfast harden {model} --corpus your-texts.txt --output hardened"
