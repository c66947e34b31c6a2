"""Writing of a report: from result files to a page and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import UserError
from holdfast.files import created_folder, locked, output_lock, remove_temporary, write_text
from holdfast.number_ranges import in_range
from holdfast.report.contents import make_contents
from holdfast.report.result_sources import files_of, read_sources

EXAMPLES = 5000
"""Default maximum number of adversarial examples on a page."""


@dataclass(frozen=True)
class Written:
    """Summary of a written report.

    Attributes:
        output: the page.
        size: its size in bytes.
        results: number of results on it.
        tables: the ids of its tables.
        figures: the ids of its figures.
        examples: number of adversarial examples on it.
        examples_total: number of adversarial examples in the results.
        plots: the picture files.
        changed: the result files that were changed since they were written; the page marks them.
        damaged: a line for each damaged record or log of a training; the rest of a damaged log is shown.
    """

    output: Path
    size: int
    results: int
    tables: tuple[str, ...]
    figures: tuple[str, ...]
    examples: int
    examples_total: int
    plots: tuple[Path, ...]
    changed: tuple[Path, ...] = ()
    damaged: tuple[str, ...] = ()


def write_report(
    results: Sequence[str],
    output: Path,
    *,
    title: str | None = None,
    plots: Path | None = None,
    examples: int = EXAMPLES,
) -> Written:
    """Write a page of results, whole or not at all.

    Args:
        results: result files; several seeds of one model joined by commas.
        output: the page, ``.html``.
        title: its heading; None: "Robustness report".
        plots: a folder for the page's figures as PNG and SVG; None: no such files.
        examples: maximum number of adversarial examples on the page.

    Raises:
        UserError: a path is not a result, a file is given twice, matplotlib is missing for ``plots``, or a file
            cannot be written.
    """
    check_output(output)
    in_range("examples", examples, least=0)
    if plots is not None:
        from holdfast.report.plots import check_plots

        check_plots(plots)
    contents = make_contents(read_sources(results), examples=examples)
    from holdfast.report.html import render_page

    page = render_page(contents, title=title or "Robustness report")
    drawn: list[Path] = []
    with output_lock(output):
        write_text(output, page)
        if plots is not None:
            from holdfast.report.plots import FORMATS, write_plots

            names = [f"*.{kind}" for kind in FORMATS]
            with created_folder(plots), locked(plots / ".plots.lock", plots):
                remove_temporary(plots, *names)
                drawn = write_plots(contents.figures, plots)
    return Written(
        output=output,
        size=output.stat().st_size,
        results=len(files_of(contents.sources)),
        tables=tuple(table.id for table in contents.tables),
        figures=tuple(figure.id for figure in contents.figures),
        examples=len(contents.examples.shown),
        examples_total=contents.examples.total,
        plots=tuple(drawn),
        changed=tuple(source.path for source in files_of(contents.sources) if source.state == "changed"),
        damaged=tuple(dict.fromkeys(line for source in contents.sources for line in source.damaged)),
    )


def check_output(output: Path) -> None:
    """Refuse a path that a browser would not open as a page.

    Raises:
        UserError: the path is a folder, or does not end in ``.html`` or ``.htm``.
    """
    if output.is_dir():
        raise UserError(f"{output} is a folder; --output takes a file: --output {output / 'report.html'}")
    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--output {output}: a page's name ends in .html")
