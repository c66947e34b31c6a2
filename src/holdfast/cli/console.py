"""What the verbs print with: results to standard output, progress to standard error, JSON for machines."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli.app import ALIVE
from holdfast.launch import is_first_process

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from holdfast.progress import Reporter

_WIDE = 160


def console() -> Console:
    """Where results go: as wide as the terminal, and wide enough for any row where there is none."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def progress_console(ctx: typer.Context, as_json: bool) -> Reporter:
    """Return where progress goes: standard error, and nowhere for machines or for any process but the first."""
    from holdfast.progress import Reporter

    reporter = Reporter(stderr=True, soft_wrap=True, quiet=as_json or not is_first_process())
    if (alive := ctx.meta.get(ALIVE)) is not None:
        alive.reporter = reporter
    return reporter


@contextlib.contextmanager
def work_quietly() -> Iterator[None]:
    """Send what libraries print to standard error, and leave out their warnings unless Python was asked for them."""
    import warnings

    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        yield


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[str] = (),
    header: bool = True,
    lines: bool = False,
) -> Table:
    """A table of text cells; ``right`` names the columns that are aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=header, show_lines=lines)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as it is: a path may hold [brackets]
    return table


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)


def setting(value: Any) -> str:
    """A value as ``--set`` and the options take it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_json(value: Any) -> None:
    """Print the one JSON document of a command, a result as its file holds it."""
    from holdfast.results import SCHEMA, encodable, to_json

    is_result = isinstance(value, dict) and value.get("schema") == SCHEMA
    print(to_json(value) if is_result else encodable(json.dumps(value, indent=2, ensure_ascii=False)))
