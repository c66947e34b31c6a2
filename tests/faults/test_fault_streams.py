"""Standard streams that are closed, full, broken or ASCII: no traceback, and the exit codes of docs/reliability.md."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from test_fault_damage import example, result

from holdfast.cli import main
from holdfast.cli.app import app
from holdfast.cli.console import console, progress_console
from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.results import read_result, write_result
from holdfast.terminal import standard_streams

TEXT = "né à Paris – 猫 \U0001f600 שלום"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a result `r.json` of 2,000 texts and two of evaluate."""
    monkeypatch.chdir(tmp_path)
    texts = [example(number=n, original=TEXT, adversarial=TEXT, changed=[]) for n in range(2000)]
    write_result(tmp_path / "r.json", result(model=TEXT, examples=texts))
    write_result(tmp_path / "a.json", {**result(), "model": TEXT})
    write_result(tmp_path / "b.json", {**result(), "model": TEXT, "model_sha256": "1" * 64})
    return tmp_path


# --- processes of their own ----------------------------------------------------------------------------------------


def shell(line: str, **environment: str) -> tuple[int, str, str]:
    """Run a line of bash in which ``holdfast`` is this one; its exit code, output and errors."""
    script = f'set -o pipefail; holdfast() {{ "{sys.executable}" -m holdfast "$@"; }}; {line}'
    own = ("PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "LC_ALL")
    variables = {name: value for name, value in os.environ.items() if name not in own}
    run = subprocess.run(["bash", "-c", script], capture_output=True, check=False, env={**variables, **environment})
    return run.returncode, run.stdout.decode(), run.stderr.decode()


@pytest.mark.parametrize(
    "line",
    [
        "holdfast show r.json --limit 1000000 | head -1",
        "holdfast show r.json --limit 1000000 --json | head -1",
        "holdfast show r.json >&-",
        "holdfast --version >&-",
    ],
)
def test_nobody_who_reads_is_141_and_quiet(line: str, here: Path) -> None:
    code, out, err = shell(line)
    assert (code, err) == (141, "")
    assert out.count("\n") <= 1


def test_help_that_is_not_read_to_its_end_is_quiet() -> None:
    code, out, err = shell("holdfast --help | head -1")
    assert code in (0, 141)  # 0 where all of it fitted into the pipe
    assert (out, err) == ("Usage: holdfast [OPTIONS] COMMAND [ARGS]...\n", "")


@FULL
@pytest.mark.parametrize("words", ["show r.json", "show r.json --json", "--version"])
def test_a_full_device_is_one_line(words: str, here: Path) -> None:
    said = "holdfast: no space left on the disk: free some space and run again\n"
    assert shell(f"holdfast {words} >/dev/full") == (2, "", said)


@FULL
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "2>&1 1>/dev/null | true"])
def test_errors_that_cannot_be_told_change_no_exit_code_and_no_output(stream: str, here: Path) -> None:
    assert shell(f"holdfast show none.json {stream}") == (2, "", "")
    if "true" not in stream:
        code, out, err = shell(f"holdfast compare a.json b.json --json {stream}")
        assert (code, err) == (0, "")
        assert json.loads(out)["kind"] == "compare"


def test_a_file_never_gets_the_number_of_a_closed_stream(here: Path) -> None:
    """Else what a library writes to number 1 or 2 would land in a result."""
    code = "import os, sys; from holdfast.terminal import standard_streams as s; f = s(); f.__enter__()"
    opened = f'"{sys.executable}" -c "{code}; sys.exit(os.open(os.devnull, os.O_RDONLY))"'
    for closed in ("<&-", ">&-", "2>&-"):
        assert shell(f"{opened} {closed}")[0] > 2
    code, out, _ = shell("holdfast compare a.json b.json --output c.json >&-")  # a slow machine tells progress
    assert (code, out) == (141, "")
    assert read_result(here / "c.json")["kind"] == "compare"


def test_closed_input_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code = "from holdfast.data.untrusted_lines import standard_input; standard_input()"
    assert "UserError: standard input is closed" in shell(f'"{sys.executable}" -c "{code}" <&-')[2]
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["audit", "call:math:sqrt", "--texts", "-"]) == 2
    said = "holdfast: standard input is closed: give a file in place of -, or send it the text (< FILE)\n"
    assert capsys.readouterr() == ("", said)


ASCII = [{"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]


@pytest.mark.parametrize("environment", ASCII, ids=str)
def test_a_terminal_of_ascii_gets_ascii(environment: dict[str, str], here: Path) -> None:
    shown = TEXT.encode("ascii", "backslashreplace").decode()
    code, out, err = shell("holdfast show r.json --limit 1; holdfast show r.json --limit 1 --json", **environment)
    assert (code, err) == (0, "")
    message, _, document = out.partition("\n[\n")
    assert out.isascii()
    assert shown in message
    assert json.loads("[" + document)[0]["original"] == TEXT
    code, out, err = shell(f"holdfast show {TEXT.replace(' ', '')}.json", **environment)
    assert (code, out) == (2, "")
    assert err.isascii()
    assert err.count("\n") == 1


def test_a_name_that_the_system_cannot_hold_is_one_line() -> None:
    code = "from holdfast.option_parsing import expanded; expanded(chr(233))"
    _, _, err = shell(f'"{sys.executable}" -c "{code}"', LC_ALL="C", PYTHONUTF8="0")
    assert "UserError: '\\xe9' cannot be a file's name in this system's encoding (ascii): set PYTHONUTF8=1" in err
    for name, says in (("a\0b", "holds a NUL"), ("a\ud800b", r"in this system's encoding \(utf-8\)$")):
        with pytest.raises(UserError, match=says):
            expanded(name)


# --- every verb that prints without long work, in this process -----------------------------------------------------

QUICK = {
    "show": ["show", "r.json"],
    "compare": ["compare", "a.json", "b.json"],
    "report": ["report", "a.json"],
    "watch": ["watch", ".", "--once"],
    "methods": ["methods"],
    "one method": ["methods", "robustembed"],
    "recipes": ["recipes"],
    "one recipe": ["recipes", "pwws"],
    "doctor": ["doctor"],
    "data list": ["data", "list"],
    "reproduce list": ["reproduce", "list"],
}
Stream = Callable[[], Any]


def ascii_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict", write_through=True)


class Broken(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
@pytest.mark.parametrize("verb", QUICK)
def test_every_verb_prints_into_ascii_and_ends_well_where_nobody_reads(
    verb: str, as_json: bool, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*QUICK[verb], *(["--json"] if as_json else [])]
    out, err = ascii_stream(), ascii_stream()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(words) == 0
    assert out.errors == "strict", "the stream is given back as it was"
    assert out.buffer.getvalue()  # type: ignore[attr-defined]
    if as_json:
        json.loads(out.buffer.getvalue())  # type: ignore[attr-defined]
    for nobody in (None, Broken()):
        monkeypatch.setattr(sys, "stdout", nobody)
        monkeypatch.setattr(sys, "stderr", nobody)
        assert main(words) == 141


def test_progress_that_nobody_reads_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for nobody in (None, Broken()):
        monkeypatch.setattr(sys, "stderr", nobody)
        with standard_streams():
            progress = progress_console(typer.Context(typer.main.get_command(app)), as_json=False)
            progress.print("step 1")
            with progress.status("reading"):
                print("a library's words", file=sys.stderr, flush=True)
    monkeypatch.setattr(sys, "stdout", Broken())
    with standard_streams(), pytest.raises(BrokenPipeError):
        console().print("a result")
