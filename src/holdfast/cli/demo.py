"""``holdfast demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import AsJson, app
from holdfast.cli.console import console, print_json, progress_console, work_quietly


@app.command(epilog="\b\nExample:\n  holdfast demo --output my-demo")
def demo(
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new folder for it. [default: ./holdfast-demo]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train on this Python's own prose, compare before and after, save and reload; offline, a few minutes."""
    from holdfast.demo.run import run_demo, summary

    with work_quietly():
        result = run_demo(output, progress_console(as_json))
    if as_json:
        print_json(result)
    else:
        table, text = summary(result)
        console().print(table)
        print(text)
