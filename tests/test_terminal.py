"""What a terminal gets: controls as their escapes, from every stream and console, and no path around them."""

from __future__ import annotations

import ast
import io
import json
import logging
import sys
import warnings
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn

import holdfast
from holdfast.cli.console import plain
from holdfast.errors import UserError
from holdfast.terminal import json_escaped, standard_streams, visible
from holdfast.visible_console import VisibleConsole

HOSTILE = (
    "a\x1b]52;c;eA==\x07\x1b[2J\x9b2J\x08\r\x7f\u202eb\u2066\u2028[bold]c[/bold][link=x]d[/link]:smile:\ud800"
    "é\U0001f600"
)
SHOWN = (
    r"a\x1b]52;c;eA==\x07\x1b[2J\x9b2J\x08\r\x7f\u202eb\u2066\u2028[bold]c[/bold][link=x]d[/link]:smile:\ud800"
    "é\U0001f600"
)
"""The same for people."""
OBEYED = set("\x1b\x07\x08\r\x7f\x9b\u202e\u2066\u2028\ud800")


def test_controls_are_shown_and_text_is_left_alone() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible(SHOWN) == SHOWN, "twice is once"
    good = "tab\tline\nné – 猫 אב\u200f \\x1b \U0001f468\u200d\U0001f469"
    assert visible(good) == good


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-16", "ascii", "iso8859-1"])
def test_json_holds_the_same_values_in_any_encoding(encoding: str) -> None:
    value = {HOSTILE: [HOSTILE, 1.5, None]}
    text = json_escaped(json.dumps(value, indent=2, ensure_ascii=False), encoding)
    assert json.loads(text.encode(encoding).decode(encoding)) == value
    assert not OBEYED & set(text)


def test_a_users_mistake_shows_controls_to_python_too() -> None:
    assert str(UserError(f"there is no {HOSTILE}")) == f"there is no {SHOWN}".replace(r"\u2028", " ").replace(
        r"\r", " "
    )


def test_what_libraries_print_and_log_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with standard_streams():
        print(HOSTILE)
        print(warnings.formatwarning(HOSTILE, UserWarning, "x.py", 1), file=sys.stderr)
        handler = logging.StreamHandler()
        handler.emit(logging.LogRecord("library", logging.ERROR, "", 0, HOSTILE, (), None))
    assert (sys.stdout, sys.stderr) == (out, err)
    assert out.getvalue() == SHOWN + "\n"
    assert err.getvalue().count(SHOWN) == 2
    assert not OBEYED & set(err.getvalue())


def terminal() -> tuple[VisibleConsole, io.StringIO]:
    file = io.StringIO()
    return VisibleConsole(file=file, force_terminal=True, color_system="truecolor", width=400), file


def test_a_console_reads_no_markup_and_passes_no_control_on() -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    console, file = terminal()
    table = Table(HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row(HOSTILE)
    for printed in (HOSTILE, table, Panel(HOSTILE, title=plain(HOSTILE))):
        console.print(printed)
    assert file.getvalue().count(SHOWN) == 7
    console.print(
        Text(HOSTILE), Text("styled", style="red")
    )  # made elsewhere: rich drops some controls, we show the rest
    message = file.getvalue()
    assert "\x1b[31mstyled" in message, "what rich says itself is obeyed"
    for sign in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e"):
        assert sign not in message


def test_a_status_line_and_the_columns_of_a_bar_show_controls() -> None:
    console, file = terminal()
    with console.status(HOSTILE) as status:
        status.update(HOSTILE + "2")
        console.print(status.renderable)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as bar:
        bar.add_task("[bold]c[/bold] " + HOSTILE)
    message = file.getvalue()
    assert SHOWN + "2" in message
    assert "[bold]c[/bold] a" in message, "no markup is read"
    for sign in ("\x1b]", "\x9b", "\x07", "\u202e", "\x1b[1mc"):
        assert sign not in message


# What the code takes of rich, looked through for what becomes of texts; `Panel` alone reads markup, in a title.
RICH = {
    *("box", "BarColumn", "Columns", "Group", "Live", "MofNCompleteColumn", "Panel", "Progress", "RenderableType"),
    *("Table", "TextColumn", "TimeElapsedColumn", "TimeRemainingColumn", "Console", "Text"),
}
ONE_PLACE = ("cli/console.py", "progress.py", "visible_console.py")  # consoles, and what they show


def said(call: ast.Call, name: str) -> str:
    """An argument by its name, as it is written; "" where it is not given."""
    return next((ast.unparse(word.value) for word in call.keywords if word.arg == name), "")


def goes_around(call: ast.Call, place: Path) -> bool:
    """Whether a call prints, or makes something that prints, around the one place."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    return (
        (name == "print" and place.parts[0] != "cli")  # `main` runs the command line within `standard_streams`
        or (last in ("echo", "secho", "print_exc") or (last == "write" and "sys.std" in name))
        or (last == "warn" and place.as_posix() != "errors.py")  # a `Notice`, which the command line prints as a line
        or (last == "Console" and said(call, "quiet") != "True")
        or (last in ("Text", "from_markup", "from_ansi") and place.as_posix() not in ONE_PLACE)
        or (last == "VisibleConsole" and place.as_posix() not in ONE_PLACE)
        or (last == "TextColumn" and said(call, "markup") != "False")
        or (last == "Panel" and not said(call, "title").startswith("plain("))
        or said(call, "markup") == "True"
    )


def test_nothing_is_printed_around_the_one_place() -> None:
    root = Path(holdfast.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and goes_around(node, place):
                found.append(f"{place}:{node.lineno}: {ast.unparse(node.func)}")
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("rich")
                and place.as_posix() not in ONE_PLACE
            ):
                found += [f"{place}: rich's {name.name}" for name in node.names if name.name not in RICH]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        *(
            "print(x)",
            "typer.echo(x)",
            "warnings.warn(x)",
            "sys.stderr.write(x)",
            "Console()",
            "Text(x)",
            "Panel(x, title=x)",
        ),
        *("TextColumn(x)", "console.print(x, markup=True)", "Text.from_markup(x)", "VisibleConsole()"),
    ],
)
def test_the_check_finds_a_way_around(line: str) -> None:
    (call,) = (node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call))
    assert goes_around(call, Path("training/run.py"))
