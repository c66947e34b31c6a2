"""``holdfast reproduce``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.app import STUDY
from holdfast.cli.console import console, print_json, table, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.errors import UserError
from holdfast.experiments.reproduce_settings import ReproduceSettings

if TYPE_CHECKING:
    from holdfast.experiments.plan import Plan


@verb(
    ReproduceSettings,
    short_help="Make the tables and figures of the five papers.",
    panel=STUDY,
    examples="""
holdfast reproduce list
holdfast reproduce all --scale smoke --model bundled-mlm --corpus mine.txt --resources light
holdfast reproduce adcl/table1 --scale small --model my-lm --resources light --masked-lm my-lm --only AG
holdfast reproduce adcl/table2 --scale small --model my-lm --corpus wiki --against pre-training=NP
holdfast reproduce my-table.yaml --scale small --model my-lm --corpus wiki --seeds 3 --output runs/tables
""",
)
def reproduce(settings: ReproduceSettings, call: Call) -> None:
    """Make tables and figures of a paper: train, fine-tune, attack and measure what is not there yet, cell by cell."""
    from holdfast.experiments.definition import tables_named
    from holdfast.experiments.job_options import check_jobs

    if tuple(settings.table) == ("list",):
        _list(as_json=call.as_json)
        return
    names = tables_named(settings.table)
    if settings.only and len(names) > 1:
        raise UserError(f"--only is of the rows of one table, and {len(names)} are to be made: leave it out")
    if settings.columns and len(names) > 1:
        raise UserError(f"--columns is of one table, and {len(names)} are to be made: leave it out")
    if settings.against is not None and len(names) > 1:
        raise UserError(f"--against is a row of one table, and {len(names)} are to be made: leave it out")
    every = [replace(settings, table=name) for name in names]
    if len({one.result_file for one in every}) < len(every):
        raise UserError("two of the tables would write the same result: give their files different names")
    if settings.plan_memory is not None and not settings.plan:
        raise UserError("--plan-memory is for --plan: give both, or leave it out")
    if settings.plan and settings.so_far:
        raise UserError("--plan and --so-far exclude each other: give one of them")
    check_jobs(settings)
    if settings.plan:
        _print_plan(every, call)
    else:
        _make(every, call)


def _list(*, as_json: bool) -> None:
    """Print all tables that can be reproduced by name."""
    from holdfast.experiments.reproduction import describe_tables

    known = describe_tables()
    if as_json:
        print_json(known)
        return
    rows = [[t["table"], t["kind"], t["title"], t["source"], f"{t['rows']} × {t['columns']}"] for t in known]
    console().print(table(["name", "kind", "what it shows", "source", "size"], rows))


def _make(every: list[ReproduceSettings], call: Call) -> None:
    """Make the tables one after the other, and print each; all are prepared before the first is made.

    Where several cells are made at the same time, those of all tables are made first, so that no process waits for the
    last cells of a table while another table has some.
    """
    from holdfast.experiments.preparation import no_values, prepare
    from holdfast.experiments.reproduction import cells_at_once, make_cells
    from holdfast.experiments.reproduction import reproduce as run

    results, failed = {}, None
    with work_quietly():
        tables = prepare(every)
        if not every[0].so_far and (every[0].executor is not None or cells_at_once(every[0]) > 1):
            failed = make_cells(tables, call.progress, call.command)
    for number, (settings, prepared) in enumerate(zip(every, tables, strict=True), start=1):
        if len(every) > 1:
            call.progress.print(f"{settings.table}: table {number} of {len(every)}", markup=False, highlight=False)
        with work_quietly():
            result = run(settings, prepared=prepared, failed=failed, console=call.progress, command=call.command)
            results[settings.result_file] = result
            pictures = _pictures(settings.result_file, result)
        if not call.as_json:
            _print_result(settings.result_file, result, pictures)
    if call.as_json:
        print_json(next(iter(results.values())) if len(results) == 1 else list(results.values()))
    if len(results) > 1:
        index = _write_index(every[0].output / f"tables-{every[0].scale}.md", results)
        call.progress.print(f"{len(results)} tables: {index}", markup=False, highlight=False)
    empty = [
        (result["protocol"]["table"], [reason for row in result["results"] for reason in row["not_run"]])
        for result in results.values()
        if not any("mean" in row["metrics"] for row in result["results"])
    ]
    if empty and not every[0].so_far:
        raise UserError(no_values(empty, len(results)))


def _print_plan(tables: list[ReproduceSettings], call: Call) -> None:
    """Print the number of cells by kind, the time left as estimated from finished cells, and what cannot be made.

    Raises:
        UserError: the run would end with this line, because a table has no value that can be made.
    """
    from holdfast.experiments.plan import plan
    from holdfast.progress import duration

    with work_quietly():
        planned = plan(tables, console=call.progress)
    if call.as_json:
        _print_plan_as_json(planned)
    else:
        lines = []
        for sort in planned.sorts:
            left = sort.cells - sort.finished
            time = "" if not left else "not known" if sort.seconds is None else duration(sort.seconds)
            lines.append([sort.kind, sort.what, str(sort.cells), str(sort.finished), str(left), time])
        out = console()
        counts = ["cells", "finished", "left"]
        out.print(table(["kind", "what", *counts, "may take"], lines, right=counts))
        known = sum(sort.seconds for sort in planned.sorts if sort.seconds is not None)
        unknown = sum(sort.cells - sort.finished for sort in planned.sorts if sort.seconds is None)
        rest = f"{unknown} cells of kinds without a finished cell in this --output" if unknown else ""
        if unknown and all(sort.seconds is None for sort in planned.sorts if sort.cells > sort.finished):
            out.print(f"the time is not known: {rest}", highlight=False)
        else:
            rest = f"; and {rest}" if rest else ""
            out.print(f"about {duration(known)}, estimated from finished cells, one at a time{rest}", highlight=False)
        _print_memory(planned, tables[0].plan_memory)
        _print_jobs(planned, tables[0])
        for line in planned.notes():
            out.print(line, markup=False, highlight=False)
    if planned.refused is not None:
        raise UserError(planned.refused)


def _print_memory(planned: Plan, memory: str | None) -> None:
    """Print the memory of each training's step, if it was measured."""
    if not planned.memory:
        return
    rows = []
    for each in planned.memory:
        shape = [each.cell, str(each.cells), f"{each.batch:,}", str(each.length), str(each.mini_batch or "")]
        size = "not known" if each.gigabytes is None else f"{each.gigabytes:,.1f} GB"
        advice = each.problem or ("fits" if each.fits else "does not fit")
        if not each.fits and not each.problem:
            advice += f"; mini_batch_size {each.fitting} does" if each.fitting else ", not even a row at a time"
        rows.append([*shape, size, advice])
    header = ["training", "cells", "batch", "tokens", "mini-batch", "memory", f"in {memory}"]
    console().print(table(header, rows, right=header[1:6]))


def _print_jobs(planned: Plan, settings: ReproduceSettings) -> None:
    """Print the jobs that would be submitted, if cells are made in jobs."""
    if not planned.jobs:
        return
    rows = []
    for each in planned.jobs:
        times = [None if each.seconds is None else each.seconds / 3600, each.gpu_hours]
        hours = ["not known" if time is None else f"{time:,.2f}" for time in times]
        options = f"not submitted: {each.refused}" if each.refused else each.options
        rows.append([each.kind, each.what, str(each.jobs), options, *hours, str(each.parts or "")])
    out = console()
    hours = ["hours", "GPU-hours", "runs of a job"]
    header = ["kind", "what", "jobs", "options", *hours]
    out.print(table(header, rows, title=f"Jobs, --executor {settings.executor}", right=["jobs", *hours]))
    submitted = [each for each in planned.jobs if not each.refused]
    most = f"at most {settings.jobs} at once" if settings.jobs else "each as soon as its inputs are made"
    known_hours = sum(each.gpu_hours for each in submitted if each.gpu_hours is not None)
    unknown = sum(each.jobs for each in submitted if each.gpu_hours is None)
    rest = f"; and {unknown} jobs of kinds without a finished cell" if unknown else ""
    out.print(
        f"{sum(each.jobs for each in submitted)} jobs, {most}: about {known_hours:,.2f} GPU-hours, by finished cells "
        f"of this --output, wherever they were made{rest}",
        highlight=False,
    )


def _print_plan_as_json(planned: Plan) -> None:
    """Print a plan as JSON."""
    print_json(
        {
            "cells": [vars(sort) for sort in planned.sorts],
            "memory": [vars(each) for each in planned.memory],
            "jobs": [vars(each) for each in planned.jobs],
            "tables": [
                {
                    "table": each.definition.name,
                    "not_made": [{"reason": reason, "values": values} for reason, values in each.not_made().items()],
                    "changes": each.applied,
                    "overruled": each.overruled,
                }
                for each in planned.tables
            ],
        }
    )


def _print_result(path: Path, result: dict[str, Any], pictures: list[str]) -> None:
    """Print a table, its notes, and its path."""
    from holdfast.experiments import render

    out = console()
    labels = len(result["results"][0]["labels"])
    header, lines = render.laid_out(result)
    title = f"{result['protocol']['title']}: ours ({render.in_brackets(result)})"
    out.print(table(header, lines, title=title, right=header[labels:]))
    for line in render.notes(result):
        out.print(line, markup=False, highlight=False)
    header, lines = render.differences_laid_out(result)
    if lines:
        out.print(table(header, lines, title=render.differences_title(result), right=header[labels:]))
    header, lines = render.trainings_laid_out(result)
    if lines:
        out.print(table(header, lines, title="Trainings", right=header[-3:]))
    message = [
        *render.differences_notes(result),
        *render.text_lines(result),
        *(f"not run: {reason}" for reason in render.reasons(result)),
        *pictures,
    ]
    for line in (*message, f"{path} (also .md and .tex)"):
        out.print(line, markup=False, highlight=False)


def _write_index(path: Path, results: dict[Path, dict[str, Any]]) -> Path:
    """Write a page with links to the tables; return its path."""
    from holdfast.experiments.render import index
    from holdfast.files import write_text

    write_text(path, index({file.stem: result for file, result in results.items()}))
    return path


def _pictures(path: Path, result: dict[str, Any]) -> list[str]:
    """Write the pictures of a figure and add them to its page; return their paths, or the reason why there are none."""
    from holdfast.experiments.render import markdown
    from holdfast.files import write_text
    from holdfast.report.plots import check_plots
    from holdfast.report.reproduced import write_pictures

    if result["protocol"]["figure"] is None:
        return []
    try:
        check_plots(path.parent)
    except UserError:
        return ["no picture: drawing needs matplotlib: pip install 'holdfast[report]'"]
    written = write_pictures(path, result)
    write_text(path.with_suffix(".md"), markdown(result, [file.name for file in written if file.suffix == ".svg"]))
    return [str(picture) for picture in written] or ["no picture: nothing to draw was measured"]
