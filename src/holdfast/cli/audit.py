"""``holdfast audit``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.audit.audit_settings import AuditSettings
from holdfast.audit.gate.gate_options import GateOptions
from holdfast.audit.item_names import item_name
from holdfast.audit.verdicts import VERDICTS
from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, print_json, print_whole, table, work_quietly
from holdfast.cli.diff import one_line
from holdfast.cli.gate import close_gate, gate_of
from holdfast.cli.verbs import Call, verb

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = {"breaks": 3, "bends": 1}
"""Number of texts per item that may be printed, by verdict."""
_EXAMPLES, _ROWS = 4, 22
"""Texts that are printed, and rows per side: the card fits one screen of 40 lines."""
_BESIDE, _LONG_LINE = 120, 300
_SIDES: tuple[tuple[Literal["hold", "move"], str], ...] = (("hold", "should hold"), ("move", "should move"))
_UNITS = {"success_rate": " %"}
_METRICS = {"different_texts": "(cosine)", "spearman": "(Spearman)"}
_FOUND = ("found@1", "found")
"""Metrics of the column found@1: the share of changed texts, or queries, that find their own text first."""
"""Names of values that are neither stability nor P(hold edit nearer)."""


@dataclass(frozen=True)
class GatedAuditSettings(GateOptions, AuditSettings):
    """Settings of an audit with a gate."""


@verb(
    GatedAuditSettings,
    short_help="Report what small changes of a text do to an encoder.",
    panel=AUDIT,
    resumes=True,
    examples="""
holdfast audit sentence-transformers/all-MiniLM-L6-v2
holdfast audit my-encoder --texts mine.txt --output audit.json
holdfast audit call:my_service:embed --texts mine.txt
holdfast audit my-encoder --fail-if 'typos.stability < 0.85'
""",
)
def audit(settings: GatedAuditSettings, call: Call) -> None:
    """The robustness report card of an encoder: what small changes of a text do to its vector. Needs no labels."""
    from holdfast.audit.audit_inputs import possible_items
    from holdfast.audit.audit_run import audit as run

    call.lock(settings.output)
    with work_quietly():
        gate = gate_of(settings, lambda: possible_items(settings))
        result = run(settings, resume=call.resume, console=call.progress, command=call.command)
    if settings.estimate:
        if call.as_json:
            print_json(result)
        return
    call.finish(result, None, lambda: _print(result, settings.output))  # it is written already
    close_gate(result, settings.output, gate, settings, call)


def _print(result: Mapping[str, Any], output: Path | None) -> None:
    """Print the report card, lines on what is not in it, example texts of the items that fail, and advice."""
    from holdfast.audit.card import absent_by_reason, noise_line
    from holdfast.audit.form_loss_table import form_loss_tables
    from holdfast.audit.recommendation import advice

    out = console()
    out.print(result["model"])
    out.print(card(result, wide=out.width >= _BESIDE))
    absent = [f"{', '.join(names)} ({reason})" for reason, names in absent_by_reason(result["results"]).items()]
    left_out = result["protocol"].get("left_out")
    lines = (
        f"not measured: {'; '.join(absent)}" if absent else None,
        noise_line(result["results"]),
        f"left out for --max-seconds: {'; '.join(left_out)}" if left_out else None,
    )
    for line in filter(None, lines):
        out.print(_short(line), highlight=False, markup=False)
    for each in form_loss_tables(result["results"]):
        out.print(each)
    for row in worst_examples(result)[:_EXAMPLES]:
        out.print(one_line(row))
    if output is not None:
        print_whole(out, f"all texts: holdfast show {shlex.quote(str(output))}")
    for line in advice(result):
        print_whole(out, line)


def _short(line: str) -> str:
    return line if len(line) <= _LONG_LINE else f"{line[: _LONG_LINE - 2]} …"


def card(result: Mapping[str, Any], *, wide: bool = True) -> Table:
    """Create the report card: what should hold beside what should move, the worst first; details are in the result.

    Args:
        result: the result of an audit.
        wide: put the two sides beside each other; otherwise one below the other.
    """
    from rich.table import Table

    from holdfast.audit.card import worst_first

    sides = [_side(worst_first(result["results"], column), title) for column, title in _SIDES]
    both = Table.grid(padding=(0, 2))
    if wide:
        both.add_row(*sides)
    else:
        for side in sides:
            both.add_row(side)
    return both


def _side(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Create the table of one side, with the first rows; the last line counts the others by verdict."""
    cells = [_cells(row) for row in rows[:_ROWS]]
    for verdict in VERDICTS:
        if more := sum(row["verdict"] == verdict for row in rows[_ROWS:]):
            cells.append([f"and {more} more", "", "", "", "", verdict])
    names = [title, "found@1", "value", "95 %", "n", "verdict"]
    if not any(found for _, found, *_ in cells):  # nothing is searched
        names, cells = [name for name in names if name != "found@1"], [[name, *rest] for name, _, *rest in cells]
    return table(names, cells, right=names[1:-1])


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row: the name, found@1, the main metric, its interval, the number of texts, the verdict."""
    from holdfast.results import digits_of

    metrics, headline = row["metrics"], row["headline"]
    digits = digits_of(headline, 1)
    ends = [metrics.get(f"{headline}_{end}") for end in ("low", "high")]
    found = next((f"{metrics[name]:.1f} %" for name in _FOUND if name in metrics), "")
    value = f"{metrics[headline]:.{digits}f}{_UNITS.get(headline, '')}" if headline in metrics else "-"
    interval = "" if None in ends else f"{ends[0]:.{digits}f}-{ends[1]:.{digits}f}"
    name = f"{item_name(row)} {_METRICS.get(headline, '')}".rstrip()
    return [name, found, "" if headline in _FOUND else value, interval, f"{row['n']:,}", row["verdict"]]


def worst_examples(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return example texts of each item that breaks, and one for each that bends: those with the smallest changes.

    The first text of each item comes first, in the order of the card, then the second, and so on.
    """
    from holdfast.audit.card import worst_first

    found: list[tuple[int, int, Mapping[str, Any]]] = []
    rows = [row for column, _ in reversed(_SIDES) for row in worst_first(result["results"], column)]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["task"]] = max(counts.get(row["task"], 0), _SHOWN.get(row["verdict"], 0))
    for rank, (task, count) in enumerate(counts.items()):
        succeeded = [row for row in result["examples"] if row["item"] == task and row["outcome"] == "succeeded"]
        # A text may occur in two splits of an item; it is shown once.
        distinct = {row["number"]: row for row in sorted(succeeded, key=_size, reverse=True)}
        chosen = sorted(distinct.values(), key=_size)[:count]
        found += [(place, rank, row) for place, row in enumerate(chosen)]
    return [row for _, _, row in sorted(found, key=lambda each: each[:2])]


def _size(row: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the sort key: share of changed words (0 for random changes), then largest movement, then number."""
    share = len(row["changed"]) / max(1, row["words"]) if row["queries"] > 1 else 0.0
    return share, -abs(row["after"]["value"] - row["before"]["value"]), row["number"]
