"""``holdfast compare``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.audit.item_names import compared_name
from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, table, work_quietly
from holdfast.cli.error_lines import warn_changed
from holdfast.cli.verbs import Call, verb
from holdfast.errors import UserError
from holdfast.forms import form_of, parse_forms
from holdfast.settings import Spelling

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.evaluation.pairing.compare_inputs import Side


@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison.

    Attributes:
        results: Results of evaluate, finetune, attack, transfer or audit. The first is the baseline. Join the seeds of
            one side by commas. One result alone, of --as: its forms with its float32 vectors.
        forms: Compare the baseline's float32 vectors with these forms of the other results, joined by commas; None: the
            same forms with each other.
        resamples: Resamples of the bootstrap.
        seed: Random seed of the bootstrap.
        output: Write the result to this file.
    """

    results: Annotated[tuple[str, ...], Spelling(argument=True, repeated=True, metavar="A.json [B.json...]")]
    forms: Annotated[str | None, Spelling(flag="--as", metavar="FORM,...")] = None
    resamples: int = 2000
    seed: int = 42
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None


@verb(
    CompareSettings,
    short_help="Compare results on the same items, with intervals and p-values.",
    panel=AUDIT,
    examples="""
holdfast compare simcse.json robust.json
holdfast compare model.json --as int8,binary
holdfast compare simcse-1.json,simcse-2.json,simcse-3.json robust-1.json,robust-2.json,robust-3.json
""",
)
def compare(settings: CompareSettings, call: Call) -> None:
    """Compare models on the same items by paired statistics: differences, 95 % intervals and p-values."""
    forms = parse_forms(settings.forms)
    call.lock(settings.output)
    from holdfast.evaluation.pairing.compare_inputs import read_side, sides_in_forms
    from holdfast.evaluation.pairing.rows import compare as run
    from holdfast.progress import stage

    with work_quietly():
        began = time.monotonic()
        alone = UserError(
            "compare takes two results or more, the first of which is the baseline: A.json B.json; or one whose "
            "vectors were measured in several forms (--as)"
        )
        if len(settings.results) < 2 and not any(Path(name).exists() for name in settings.results[0].split(",")):
            raise UserError(f"{settings.results[0]} is no file; {alone}")
        sides = [read_side(words) for words in settings.results]
        if len(sides) < 2 and not forms and not any(form_of(row) for row in sides[0].sources[0].result["results"]):
            raise alone
        baseline, *others = sides_in_forms(sides, forms) if forms or len(sides) < 2 else sides
        warn_changed(source.path for side in (baseline, *others) for source in side.sources if source.changed)
        rows: list[dict[str, Any]] = []
        notes: list[list[str]] = []
        for number, other in enumerate(others, start=1):
            with stage(call.progress, f"resampling {other.name}", announce=False):
                found, left_out = run(baseline, other, seed=settings.seed, resamples=settings.resamples)
            rows += [{**row, "against": number} for row in found]
            notes.append(left_out)
        result = _result([baseline, *others], rows, notes, settings, time.monotonic() - began, call.command)
    call.finish(result, settings.output, lambda: _show(baseline, others, result, notes))


def _show(baseline: Side, others: Sequence[Side], result: Mapping[str, Any], notes: Sequence[Sequence[str]]) -> None:
    out = console()
    rows = result["results"]
    for number, (other, lines) in enumerate(zip(others, notes, strict=True), start=1):
        out.print(f"A  {_named(baseline)}\nB  {_named(other)}", markup=False, highlight=False)
        out.print(_table([row for row in rows if row["against"] == number]))
        for line in lines:
            out.print(line, markup=False, highlight=False)
    out.print(_legend(rows, result["protocol"]["resamples"]), markup=False, highlight=False)


def _result(
    sides: Sequence[Side],
    rows: Sequence[dict[str, Any]],
    notes: Sequence[Sequence[str]],
    settings: CompareSettings,
    seconds: float,
    command: Sequence[str],
) -> dict[str, Any]:
    from holdfast.evaluation.comparison import interval_shown
    from holdfast.results import new_result

    changed = [str(source.path) for side in sides for source in side.sources if source.changed]
    hashes = {str(source.path): source.result["model_sha256"] for side in sides for source in side.sources}
    return new_result(
        "compare",
        command=command,
        model=", ".join(side.name for side in sides),
        identity={"model_sha256": " ".join(hashes.values()), "model_files": hashes},
        protocol={
            "results": [[str(source.path) for source in side.sources] for side in sides],
            "interval": interval_shown(),
            "p": "two-sided; mcnemar: exact, one model a side; bootstrap: twice the smaller tail, one more in each; t: "
            "several seeds, or a mean of few items",
            "resamples": settings.resamples,
            **({"notes": [list(lines) for lines in notes]} if any(notes) else {}),
            **({"changed_after_written": changed} if changed else {}),
        },
        seed=settings.seed,
        results=rows,
        timing={"compare_seconds": seconds},
    )


def _named(side: Side) -> str:
    return f"{side.name} ({', '.join(str(source.path) for source in side.sources)})"


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    from holdfast.results import digits_of, p_shown

    columns = ["task", "items", "metric", "A", "B", "B - A", "95 %", "p"]
    cells = []
    for row in rows:
        m, digits = row["metrics"], digits_of(row["metric"], 2)
        cells.append(
            [
                compared_name(row),
                f"{row['n']:,}",
                str(row["metric"]).replace("_", " "),
                _score(m["baseline"], m.get("baseline_std"), digits),
                _score(m["other"], m.get("other_std"), digits),
                f"{m['difference']:+.{digits}f}",
                f"{m['low']:+.{digits}f} to {m['high']:+.{digits}f}",
                p_shown(m["p"]) + ("*" if row["test"] == "mcnemar" else ""),
            ]
        )
    return table(columns, cells, right=[column for column in columns if column not in ("task", "metric")])


def _score(mean: float, std: float | None, digits: int) -> str:
    return f"{mean:.{digits}f}" if std is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def _legend(rows: Sequence[Mapping[str, Any]], resamples: int) -> str:
    """Return a line on the intervals and p-values of the tests that the rows had."""
    tests = {row["test"] for row in rows}
    lines = []
    if tests - {"t"}:
        mcnemar = "; * McNemar's exact test" if "mcnemar" in tests else ""
        lines.append(
            f"95 %: paired bootstrap over items, {resamples:,} resamples, percentiles. p: two-sided, bootstrap{mcnemar}"
        )
    of_t = [row for row in rows if row["test"] == "t"]
    if any(max(row["seeds"]) == 1 for row in of_t):
        lines.append("95 % and p of means of few items: t")
    if any(max(row["seeds"]) > 1 for row in of_t):
        lines.append(
            f"95 % and p of several seeds: t, with the variance between seeds and that of the items ({resamples:,} "
            "resamples)"
        )
    if any(min(row["seeds"]) == 1 < max(row["seeds"]) for row in rows):
        lines.append("A side of one seed counts as a fixed model: the variance between its trainings is in no interval")
    return ". ".join(lines)
