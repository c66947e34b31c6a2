"""The command line: one plain typed function per verb, each in a module of its own.

What a person reads while waiting goes to standard error, what was asked for to standard output; with ``--json`` that
is one JSON document and nothing else. A user's mistake is one line and exit code 2. Heavy imports are made inside the
verbs, so that ``holdfast --help`` is there at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

import typer

from holdfast.cli.app import app
from holdfast.cli.mistakes import complain, one_line

# Verbs register themselves when they are imported, and --help lists them in this order.
from holdfast.cli import pretrain, train, evaluate, baseline, finetune, attack, audit, space  # noqa: F401  # isort: skip
from holdfast.cli import masks, compare, show, report, watch, reproduce, doctor, data, methods, demo  # noqa: F401  # isort: skip

_MISTAKE, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # the last two are 128 + the signal's number, as shells have it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for a user's mistake, 130 when interrupted.

    Args:
        arguments: the words after ``holdfast``; None: those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        command = typer.main.get_command(app)
        with command.make_context("holdfast", list(words), obj=["holdfast", *words]) as context:
            command.invoke(context)
        sys.stdout.flush()  # here, where a closed pipe can still be told from a crash
    except typer.Exit as stop:
        return stop.exit_code
    except KeyboardInterrupt:
        how = {
            **dict.fromkeys(("pretrain", "train", "finetune", "attack"), "; continue with --resume"),
            "reproduce": "; the same command goes on from here",
            "demo": "; the same command goes on from here",
        }
        complain("stopped" + how.get(words[0], ""))
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough. What is still buffered must not raise again when Python exits.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except Exception as error:
        line = one_line(error)
        if line is None:
            raise
        complain(line)
        return _MISTAKE
    return 0
