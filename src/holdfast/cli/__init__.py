"""The command line: one plain typed function per verb, each in a module of its own.

What a person reads while waiting goes to standard error, what was asked for to standard output; with ``--json`` that
is one JSON document and nothing else. A user's mistake is one line and exit code 2. Heavy imports are made inside the
verbs, so that ``holdfast --help`` is there at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import typer

from holdfast.cli.alive import Alive
from holdfast.cli.app import ALIVE, app
from holdfast.cli.mistakes import complain, fail, one_line, show_traceback
from holdfast.launch import is_first_process, refuse_company
from holdfast.terminal import standard_streams

# Verbs register themselves when they are imported, and --help lists them in this order.
from holdfast.cli import demo, audit, harden, evaluate, compare, report  # noqa: F401  # isort: skip
from holdfast.cli import train, finetune, baseline, pretrain, watch, methods  # noqa: F401  # isort: skip
from holdfast.cli import attack, show, doctor, reproduce, space, masks, data  # noqa: F401  # isort: skip

_MISTAKE, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # the last two are 128 + the signal's number, as shells have it
_ALONE = (
    *("audit", "baseline", "compare", "demo", "finetune", "masks"),
    *("pretrain", "report", "reproduce", "space", "transfer"),
)
"""The verbs that write something and do not share their work."""
_CONTINUE: dict[str, str] = {
    **dict.fromkeys(("pretrain", "train", "finetune", "attack", "harden"), "; continue with --resume"),
    **dict.fromkeys(("reproduce", "demo"), "; the same command goes on from here"),
}


class _Stopped(KeyboardInterrupt):
    """Another signal than Ctrl-C has asked the process to end: what is open is closed and removed as for that."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a user's mistake, 130 when interrupted, 143 when ended,
    141 where nobody reads what it prints.

    Args:
        arguments: the words after ``holdfast``; None: those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    stopped = "stopped" + _CONTINUE.get(words[0], "")
    with standard_streams():
        try:
            code = _invoked(words, stopped)
            sys.stdout.flush()  # here, where a closed pipe can still be told from a crash
        except KeyboardInterrupt as stop:
            fail(stopped)
            code = 128 + stop.number if isinstance(stop, _Stopped) else _INTERRUPTED
            if arguments is None:
                _leave(code)
        except BrokenPipeError:  # whoever read the output has enough
            return _PIPE_CLOSED
        except Exception as error:
            line = one_line(error)
            if line is None:
                sys.excepthook = show_traceback
                raise
            fail(line)
            return _MISTAKE
    return code


def _invoked(words: list[str], stopped: str) -> int:
    """Run the verb, and return the exit code that it asks for."""
    if words[0] in _ALONE:
        refuse_company(words[0])
    quiet = "--json" in words or not is_first_process()
    alive = Alive(words[0], quiet=quiet, ended=lambda: complain(stopped))
    try:
        with _stopping_cleanly(alive), alive.running():
            command = typer.main.get_command(app)
            with command.make_context("holdfast", list(words), obj=["holdfast", *words]) as context:
                context.meta[ALIVE] = alive
                command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    return 0


def _leave(code: int) -> NoReturn:
    """End this process now: Python would spend seconds on taking all its modules down first."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def _stopping_cleanly(alive: Alive) -> Iterator[None]:
    """Make of the signals that ask a process to end what Ctrl-C is, where nobody else sees to them."""
    own = os.getpid()

    def stop(number: int, _: FrameType | None) -> None:
        if os.getpid() == own:
            alive.react()
        elif number != signal.SIGINT:  # a process that a library has forked off is not ours to end cleanly
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise _Stopped(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python lets no other thread see to signals
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            if signal.getsignal(number) == usual:  # nohup has SIGHUP ignored, a shell's background SIGINT
                before[number] = signal.signal(number, stop)
    alive.stopping = tuple(before)
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
