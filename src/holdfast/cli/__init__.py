"""The command line: one typed function per command, each in its own module.

Progress goes to standard error, results to standard output; with ``--json`` the output is a single JSON document. A
user error is one line and exit code 2. Heavy imports are inside the commands, so that ``holdfast --help`` starts fast.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import typer

from holdfast.cli.app import ALIVE, app
from holdfast.cli.error_lines import complain, fail, one_line, show_traceback
from holdfast.cli.heartbeat import Alive
from holdfast.launch import is_first_process, require_single_process
from holdfast.stopping import SIGNALS, StopAtOnce, Stopped
from holdfast.terminal import standard_streams

# Commands register themselves on import, and --help lists them in this order.
from holdfast.cli import demo, audit, harden, distill, evaluate, compare, check, report  # noqa: F401  # isort: skip
from holdfast.cli import train, finetune, baseline, pretrain, watch, methods  # noqa: F401  # isort: skip
from holdfast.cli import attack, show, doctor, reproduce, space, masks, data, leaderboard  # noqa: F401  # isort: skip

_MISTAKE, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # the last two are 128 + the signal number, as in shells
_ALONE = (
    *("audit", "baseline", "check", "compare", "demo", "distill", "finetune", "leaderboard", "masks"),
    *("pretrain", "report", "reproduce", "space", "transfer"),
)
"""Commands that write files and run as a single process."""
_CONTINUE: dict[str, str] = {
    **dict.fromkeys(
        ("pretrain", "train", "finetune", "attack", "audit", "harden", "distill"), "; continue with --resume"
    ),
    **dict.fromkeys(("reproduce", "demo", "leaderboard"), "; the same command goes on from here"),
}
_NEED_OUTPUT = ("attack", "audit")
"""Commands that keep what is finished beside the file of --output, and can only then be continued."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the arguments of this process, and return its exit code.

    0: success; 1: a gate failed (`check`, `audit --fail-if`); 2: user error; 130: interrupted; 143: terminated; 141:
    standard output was closed by the reader.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    stopped = _stopped_line(words)
    with standard_streams():
        try:
            code = _invoked(words, stopped)
            sys.stdout.flush()  # here, where a closed pipe can still be handled
        except KeyboardInterrupt as stop:
            fail(stopped)
            code = 128 + stop.number if isinstance(stop, Stopped) else _INTERRUPTED
            if arguments is None:
                _leave(code)
        except BrokenPipeError:  # the reader of the output has closed it
            return _PIPE_CLOSED
        except Exception as error:
            line = one_line(error)
            if line is None:
                sys.excepthook = show_traceback
                raise
            fail(line)
            return _MISTAKE
    return code


def _stopped_line(words: Sequence[str]) -> str:
    """Return the line after a stop, which says how to go on."""
    # The file of settings may name the output, too.
    kept = any(word.startswith(("--output", "--config")) for word in words)
    if words[0] in _NEED_OUTPUT and not kept:
        return "stopped; nothing was kept: with --output FILE.json a stopped run can be continued"
    return "stopped" + _CONTINUE.get(words[0], "")


def _invoked(words: list[str], stopped: str) -> int:
    """Run the command and return its exit code."""
    if words[0] in _ALONE:
        require_single_process(words[0])
    quiet = "--json" in words or not is_first_process()
    alive = Alive(words[0], quiet=quiet, ended=lambda: complain(stopped))
    try:
        with _stopping_cleanly(alive), alive.running():
            command = _commands()
            with command.make_context("holdfast", list(words), obj=["holdfast", *words]) as context:
                context.meta[ALIVE] = alive
                command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    return 0


@functools.cache
def _commands() -> Any:
    """Return the commands and their options, which take 30 ms to build from their functions."""
    return typer.main.get_command(app)


def _leave(code: int) -> NoReturn:
    """Exit at once, without the teardown of modules, which takes seconds."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the stream is closed
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def _stopping_cleanly(alive: Alive) -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, unless they have another handler already."""
    stop = StopAtOnce(alive.react, alive.defer)
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # only the main thread can set signal handlers
        for number in SIGNALS:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            if signal.getsignal(number) == usual:  # nohup ignores SIGHUP; a shell's background jobs ignore SIGINT
                before[number] = signal.signal(number, stop)
    alive.stopping = tuple(before)
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
