"""``holdfast data``."""

from __future__ import annotations

from dataclasses import asdict

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
