"""``holdfast data``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import AsJson, DataFolder, data_app
from holdfast.cli.console import cell, console, print_json, progress_console, table


@data_app.command(
    "list",
    short_help="List every task and corpus by name, and where it comes from.",
    epilog="\b\nExample:\n  holdfast data list --data ~/sts-data",
)
def data_list(data: DataFolder = None, as_json: AsJson = False) -> None:
    """Every task and corpus that is known by name, and where it would come from."""
    from holdfast.data.inventory import list_data

    rows = [asdict(row) for row in list_data(data)]
    if as_json:
        print_json(rows)
        return
    columns = ["name", "kind", "splits", "rows", "where", "licence"]
    console().print(table(columns, ([cell(row[name]) for name in columns] for row in rows), right=("rows",)))


@data_app.command(
    "check",
    short_help="Read every known file of the data folder to its end.",
    epilog="\b\nExample:\n  holdfast data check --data ~/sts-data",
)
def data_check(ctx: typer.Context, data: DataFolder = None, as_json: AsJson = False) -> None:
    """Read every known file of the data folder to its end; exit code 1 when one is changed or missing."""
    from holdfast.data.inventory import check_data
    from holdfast.progress import stage

    with stage(progress_console(ctx, as_json), "reading every file", announce=False):
        rows = [asdict(row) for row in check_data(data)]
    if as_json:
        print_json(rows)
    else:
        cells = ([row["file"], row["status"], cell(row["rows"]), row["sha256"][:12], row["note"]] for row in rows)
        console().print(table(["file", "status", "rows", "sha256", "note"], cells, right=("rows",)))
    if any(row["status"] != "ok" for row in rows):
        raise typer.Exit(1)


@data_app.command(
    "texts",
    short_help="Write the texts of tasks, without labels, to a file: a corpus.",
    epilog="\b\nExample:\n  holdfast data texts sts --data ~/sts-data --output sts.txt",
)
def data_texts(
    ctx: typer.Context,
    tasks: Annotated[str, typer.Argument(metavar="TASKS", help="Tasks, joined by commas; sts: the seven of STS.")],
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="File to write, a text per line.")],
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write the distinct texts of all splits of tasks to a file, without their labels: a corpus for `train`."""
    from holdfast.cli.overwriting import refuse_overwriting
    from holdfast.data.task_texts import write_texts
    from holdfast.files import check_file_place
    from holdfast.progress import stage

    refuse_overwriting("--output", output, {"TASKS": tasks})
    check_file_place("--output", output)
    with stage(progress_console(ctx, as_json), "reading the tasks", announce=False):
        count = write_texts([name.strip() for name in tasks.split(",")], output, data=data)
    if as_json:
        print_json({"texts": count, "output": str(output)})
        return
    console().print(
        f"{count:,} texts in {output}, those of the test sets among them: of a model that is trained on them, a score "
        "on these tasks is not one on unseen texts",
        markup=False,
        highlight=False,
    )
