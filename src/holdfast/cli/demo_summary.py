"""The demo's results for readers: tables, texts that broke and hold now, and the next steps."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit.gate.directions import better
from holdfast.cli.console import table
from holdfast.demo.before_and_after import AIMED, NEW_ENTRIES, ORIGINAL, TRAINED
from holdfast.demo.demo_folder import RESULT_FILE
from holdfast.results import digits_of

if TYPE_CHECKING:
    from rich.table import Table

Rows = Sequence[Mapping[str, Any]]

_NAMES = {
    "clean": "as written",
    "typing": "typing errors, as people make them",
    "typing=0.2": "in a fifth of the words",
}
_UNITS = dict.fromkeys(("success_rate", "neighbour_changed", "found", "found@1"), " %")
_METRICS = {"success_rate": " (attacked)", "found": " (found)", "found@1": " (found)"}
_HOLD_ROWS, _FOUND_CHARS = 8, 110
_KEPT = {
    TRAINED: "",
    NEW_ENTRIES: """
Kept are the weights of the original, with misspellings as new entries of its vocabulary: on the few held-out
texts of this demo no training recovered more than they do, and they cost nothing.
""",
    ORIGINAL: """
The hardening kept the original encoder: on its held-out texts no version of it was worth what it cost.
""",
}


def summary(result: Mapping[str, Any]) -> tuple[list[Table], str]:
    """Return the demo's tables, and a text with the examples and the next steps."""
    folder = Path(result["output"])
    protocol, sentences = result["protocol"], f"{result['protocol']['corpus']['sentences']:,} texts"
    kept = _KEPT[result["kept"]]
    return (
        [_card_table(result["card"]), _retrieval_table(result["retrieval"])],
        f"""{kept}
{_examples(result)}

A small demonstration, not a benchmark: one hardening of {protocol["steps"]} steps on {sentences}; the passages,
questions and changed meanings were written by holdfast's authors. No question that is asked here was trained on.
The demo took {result["timing"]["demo_seconds"] / 60:.1f} minutes.

Use the model: SentenceTransformer("{result["hardened"]}")
Harden yours:  holdfast harden my-encoder --corpus my-texts.txt --output hardened
The methods:   holdfast demo --methods --output methods-demo
All items:     holdfast show {shlex.quote(str(folder / "hardened" / "audit-after.json"))}
All numbers:   {folder / RESULT_FILE}
The report:    {result["report"]}""",
    )


def _retrieval_table(rows: Rows) -> Table:
    cells = [
        [
            _NAMES.get(row["queries"], row["queries"]),
            *(f"{row[name]:.1f}" for name in ("before", "after")),
            _difference(row, 1),
            row["remark"],
        ]
        for row in rows
    ]
    numbers = ["before", "after", "difference"]
    title = f"{rows[0]['n']} questions: passages found at the first place, %, in the index of the original"
    return table(["questions", *numbers, ""], cells, title=title, right=numbers)


def _card_table(rows: Rows) -> Table:
    """Create the card: the items that hardening aims at, the worst of the others before it, and the other side."""
    hold = [row for row in rows if row["side"] == "hold"]
    first = [row for row in hold if row["item"] in AIMED]
    others = sorted((row for row in hold if row not in first), key=_held)
    shown = [*first, *others[: max(0, _HOLD_ROWS - len(first))]]
    shown += [row for row in rows if row["side"] == "move" and row["item"].startswith("written ")]
    cells = []
    for row in shown:
        digits, unit = digits_of(row["metric"], 1), _UNITS.get(row["metric"], "")
        values = [f"{row[name]:.{digits}f}{unit}" for name in ("before", "after")]
        side = "should hold" if row["side"] == "hold" else "should move"
        cells.append([side, _item(row), *values, _difference(row, digits), row["remark"]])
    numbers = ["before", "after", "difference"]
    title = "The report card before and after the hardening"
    return table(["", "item", *numbers, ""], cells, title=title, right=numbers)


def _held(row: Mapping[str, Any]) -> float:
    """Return how well an item held before the hardening, from 0 to 1, whatever its metric."""
    value = float(row["before"]) / (100.0 if row["metric"] in _UNITS else 1.0)
    return 1.0 - value if better(row["metric"]) == "lower" else value


def _item(row: Mapping[str, Any]) -> str:
    return f"{row['item'].removeprefix('written ')}{_METRICS.get(row['metric'], '')}"


def _difference(row: Mapping[str, Any], digits: int) -> str:
    if "difference" not in row:
        return ""
    ends = [row.get(name) for name in ("low", "high")]
    interval = "" if None in ends else f" ({ends[0]:+.{digits}f} to {ends[1]:+.{digits}f})"
    return f"{row['difference']:+.{digits}f}{interval}"


def _examples(result: Mapping[str, Any]) -> str:
    counts, blocks = result["copies"], []
    for row in result["examples"]:
        blocks.append(
            f"  {row['original']}\n  → {row['adversarial']}\n    found before: {_short(row['before']['found'])}\n"
            f"    found now:    {_short(row['after']['found'])}"
        )
    numbers = (
        f"Of {counts['copies']:,} mistyped questions {counts['repaired']} find their passage that did not before, and "
        f"{counts['broken']} no longer do."
    )
    if not blocks:
        return f"{numbers}\nNo question broke by its typing errors and holds now."
    return "\n".join([numbers, "Broke, and hold now:", *blocks])


def _short(text: str) -> str:
    return text if len(text) <= _FOUND_CHARS else f"{text[: _FOUND_CHARS - 2]} …"
