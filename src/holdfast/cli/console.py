"""Output of the commands: results to standard output, progress to standard error, JSON for machines."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli.app import ALIVE
from holdfast.cli.error_lines import complain
from holdfast.errors import Notice
from holdfast.launch import is_first_process
from holdfast.terminal import json_escaped, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from holdfast.progress import Reporter

_WIDE = 160


def console() -> Console:
    """Return the console for results: as wide as the terminal, or wide enough for any row without a terminal."""
    from holdfast.visible_console import VisibleConsole

    console = VisibleConsole()
    return console if console.is_terminal else VisibleConsole(width=_WIDE)


def progress_console(ctx: typer.Context, as_json: bool) -> Reporter:
    """Return the console for progress: standard error; quiet with --json and in all processes except the first."""
    from holdfast.progress import Reporter

    reporter = Reporter(stderr=True, soft_wrap=True, quiet=as_json or not is_first_process())
    if (alive := ctx.meta.get(ALIVE)) is not None:
        alive.reporter = reporter
    return reporter


@contextlib.contextmanager
def work_quietly() -> Iterator[None]:
    """Redirect the output of libraries to standard error; hide their warnings by default.

    Warnings are shown with ``python -W`` or PYTHONWARNINGS. A `Notice` is always shown, once.
    """
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", Notice)
        warnings.showwarning = _notice_printer(warnings.showwarning)
        yield


def _notice_printer(show: Callable[..., None]) -> Callable[..., None]:
    """Return a function that prints each `Notice` once, as a line, and passes other warnings to ``show``."""
    seen: set[str] = set()

    def show_notice(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, Notice):
            show(message, category, *where, **more)
        elif str(message) not in seen:
            seen.add(str(message))
            complain(str(message))

    return show_notice


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[str] = (),
    header: bool = True,
    lines: bool = False,
) -> Table:
    """Create a table of text cells; ``right`` lists the right-aligned columns."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=header, show_lines=lines)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    return table


def plain(text: str, style: str = "") -> Text:
    """Convert a string to rich text, without terminal control sequences or rich markup."""
    from rich.text import Text

    return Text(visible(text), style)


def cell(value: Any) -> str:
    """Format a value for a table."""
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return f"{value:,}" if type(value) is int else str(value)


def setting(value: Any) -> str:
    """Format a value as ``--set`` and the options accept it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_whole(out: Console, line: str) -> None:
    """Print a line as it is, without breaks: a command in it is copied as one line."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print the JSON document of a command; a result is printed as in its file."""
    from holdfast.result_layout import SCHEMA
    from holdfast.results import to_json

    is_result = isinstance(value, dict) and value.get("schema") == SCHEMA
    text = to_json(value) if is_result else json.dumps(value, indent=2, ensure_ascii=False)
    print(json_escaped(text, sys.stdout.encoding))
