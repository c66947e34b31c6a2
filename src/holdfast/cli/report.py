"""``holdfast report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import AUDIT, AsJson, app
from holdfast.cli.console import console, print_json, progress_console, work_quietly
from holdfast.cli.error_lines import complain, warn_changed
from holdfast.cli.overwriting import refuse_overwriting


@app.command(
    short_help="Write one HTML page of any results.",
    rich_help_panel=AUDIT,
    epilog="\b\nExample:\n"
    "  holdfast report evaluated.json attacked.json audit.json --output report.html\n"
    "  holdfast report simcse-1.json,simcse-2.json robust-1.json,robust-2.json --output report.html --plots figures",
)
def report(
    ctx: typer.Context,
    results: Annotated[
        list[str],
        typer.Argument(metavar="RESULT.json...", help="Results of any verb. Seeds of one model are joined by commas."),
    ],
    output: Annotated[Path, typer.Option(metavar="FILE.html", help="File of the page.")] = Path("report.html"),
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the figures to this folder, too, as PNG and SVG.")
    ] = None,
    title: Annotated[str | None, typer.Option(help='Heading of the page. [default: "Robustness report"]')] = None,
    examples: Annotated[int, typer.Option(help="Largest number of adversarial examples in the page.")] = 5000,
    as_json: AsJson = False,
) -> None:
    """One HTML page of results, which needs no network: tables, figures, adversarial examples, provenance."""
    from holdfast.progress import stage
    from holdfast.report import write_report

    refuse_overwriting("--output", output, {"RESULT.json": results})

    with work_quietly(), stage(progress_console(ctx, as_json), "writing the page", announce=False):
        written = write_report(results, output, title=title, plots=plots, examples=examples)
    warn_changed(written.changed)
    for line in written.damaged:
        complain(line)
    if as_json:
        print_json(
            {
                "output": str(written.output),
                "bytes": written.size,
                "results": written.results,
                "tables": list(written.tables),
                "figures": list(written.figures),
                "examples": written.examples,
                "examples_there": written.examples_total,
                "plots": [str(path) for path in written.plots],
                "changed_after_written": [str(path) for path in written.changed],
                "damaged": list(written.damaged),
            }
        )
        return
    out = console()
    content = f"{len(written.tables)} tables, {len(written.figures)} figures, {written.examples:,} examples"
    if written.examples < written.examples_total:
        content += f" of {written.examples_total:,}"
    out.print(f"{written.output} ({written.size / 1e6:.1f} MB): {content}", markup=False, highlight=False)
    if written.plots:
        out.print(f"{plots}: {len(written.plots)} pictures", markup=False, highlight=False)
