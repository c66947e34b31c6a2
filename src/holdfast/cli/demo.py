"""``holdfast demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import AUDIT, AsJson, app
from holdfast.cli.console import console, print_json, progress_console, work_quietly


@app.command(
    short_help="Run every stage on the text of this Python's documentation.",
    rich_help_panel=AUDIT,
    epilog="\b\nExample:\n  holdfast demo --output my-demo",
)
def demo(
    ctx: typer.Context,
    output: Annotated[Path, typer.Option(metavar="DIR", help="New folder for everything that the demo makes.")] = Path(
        "holdfast-demo"
    ),
    model: Annotated[str, typer.Option(help="Masked LM or encoder to start from.")] = "bundled",
    as_json: AsJson = False,
) -> None:
    """Train on this Python's own prose, compare, attack, audit, and write the report; offline, a few minutes."""
    from holdfast.demo.demo_run import run_demo
    from holdfast.demo.demo_settings import DemoSettings
    from holdfast.demo.summary import summary

    with work_quietly():
        result = run_demo(DemoSettings(model, output), progress_console(ctx, as_json))
    if as_json:
        print_json(result)
        return
    tables, text = summary(result)
    out = console()
    for table in tables:
        out.print(table)
    print(text)
