"""``holdfast harden``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.audit.item_names import item_name
from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, print_json, print_whole, table, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.hardening.harden_settings import HardenSettings

if TYPE_CHECKING:
    from rich.table import Table


@verb(
    HardenSettings,
    short_help="Make a robust copy of an encoder that is in use.",
    panel=AUDIT,
    resumes=True,
    examples="""
holdfast harden sentence-transformers/all-MiniLM-L6-v2 --corpus mine.txt --output hardened
holdfast harden my-encoder --corpus mine.txt --queries asked.txt --noise typing,speech --output hardened
holdfast harden my-encoder --corpus mine.txt --synonyms my-thesaurus.tsv --data ~/sts-data --output hardened
""",
)
def harden(settings: HardenSettings, call: Call) -> None:
    """Make a robust copy of an encoder in use: changed texts move less, clean ones stay where they were."""
    from holdfast.hardening.hardening_run import AFTER
    from holdfast.hardening.hardening_run import harden as run

    with work_quietly():
        result = run(settings, resume=call.resume, console=call.progress, command=call.command)
    if not result:  # not the first of several processes, which prints for all
        return
    if call.as_json:
        print_json(result)
        return
    out = console()
    if result["results"]:
        out.print(before_and_after(result))
    for line in lines_of(result):
        out.print(line, highlight=False, markup=False)
    if settings.audited:
        texts = shlex.quote(str(settings.output / AFTER))
        print_whole(out, f"all texts: holdfast show {texts}")
    out.print(f'Load it with: SentenceTransformer("{settings.output}")')


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Return lines on what was kept, and on clean queries in the old index; none where nothing was held out."""
    selected = result["selected"]
    lines = [("kept: " if selected["step"] else "") + selected["line"]] if "line" in selected else []
    for row in result["results"]:
        if "same_top1" in row["metrics"]:
            metrics = row["metrics"]
            lines.append(
                f"clean queries: cosine {metrics['cosine']:.3f} to their vectors by the original, in the old index the "
                f"same first document for {metrics['same_top1']:.1f} %, {metrics['same_top10']:.1f} % of the first ten"
            )
    return lines


def before_and_after(result: Mapping[str, Any]) -> Table:
    """Create a table with a row per item: its main metric before and after, and the verdicts."""
    from holdfast.results import digits_of

    cells = []
    for row in result["results"]:
        metrics, digits = row["metrics"], digits_of(row["metric"], 1)
        values = [_with_interval(metrics, when, digits) for when in ("before", "after")]
        values.append(_with_interval(metrics, "difference", digits, sign="+") if "difference" in metrics else "")
        cells.append(
            [item_name(row), row["metric"].replace("_", " "), *values, " → ".join(dict.fromkeys(row["verdicts"]))]
        )
    numbers = ["before", "after", "difference"]
    card = table(["item", "metric", *numbers, "verdict"], cells, title=result["model"], right=numbers)
    card.caption = "95 % intervals; differences are paired, over the same texts"
    return card


def _with_interval(metrics: Mapping[str, float], when: str, digits: int, sign: str = "") -> str:
    value = f"{metrics[when]:{sign}.{digits}f}"
    ends = [metrics.get(f"{when}_{end}") for end in ("low", "high")]
    return value if None in ends else f"{value} ({ends[0]:{sign}.{digits}f} to {ends[1]:{sign}.{digits}f})"
