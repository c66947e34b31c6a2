"""The work of a job on a cluster: one cell. It stops where the cluster asks for it, and continues in the next job."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from holdfast.errors import EndsRun, UserError
from holdfast.experiments.cell_execution import make
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.files import InUse
from holdfast.progress import Reporter

if TYPE_CHECKING:
    from rich.console import Console

BEGAN = "holdfast begins with the cell"
"""The first line of a job's output that comes from the cell."""

MADE, NOT_MADE, ENDS_RUN, IN_USE = "made", "not made", "ends the run", "in use"
"""The outcomes of a cell in a job; the reason is beside it."""


@dataclass
class CellJob:
    """One cell as submitit runs it in a job.

    Attributes:
        cell: the cell; its inputs exist.
        store: where it is kept; the same folder for all machines.
        setting: the inputs that the cells share.
        command: the words of the command line, for the result.
        jobs: cells that are made at the same time on the machine.
        threads: threads of torch; None: as many as torch takes.
    """

    cell: Cell
    store: Store
    setting: Setting
    command: list[str]
    jobs: int = 1
    threads: int | None = None

    def __call__(self) -> tuple[str, str]:
        """Make the cell; return what became of it, and the reason if it was not made.

        If the cluster announces the end of the job's time, the job is queued again, and this does not return.
        """
        from submitit import JobEnvironment

        if JobEnvironment().name() == "local":
            with contextlib.suppress(PermissionError):
                os.setsid()  # away from the terminal, whose Ctrl-C is for the command that started the job
        console = Reporter(file=sys.stdout, width=200)
        console.print(f"{BEGAN} {self.cell.kind}: {self.cell.label}")
        stop = _StopOfCluster(getattr(signal, f"SIG{JobEnvironment.USR_SIG}"))
        try:
            with stop:
                return self._make(console)
        except KeyboardInterrupt:
            stop.queue_again()
            raise

    def checkpoint(self) -> Any:
        """Return what submitit runs in the next job, after a stop by the cluster: the same."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _make(self, console: Reporter) -> tuple[str, str]:
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)
        try:
            return outcome_of(self.cell, self.store, self.setting, console, self.command, self.jobs)
        except EndsRun as error:
            return ENDS_RUN, str(error)


def outcome_of(
    cell: Cell, store: Store, setting: Setting, console: Console, command: list[str], jobs: int
) -> tuple[str, str]:
    """Make a cell; return what became of it (`MADE`, `NOT_MADE` or `IN_USE`), and the reason if it was not made.

    Raises:
        UserError: a mistake ends the whole run (`EndsRun`).
    """
    try:
        make(cell, store, setting, console, command, jobs=jobs)
    except InUse as error:
        return IN_USE, str(error)
    except EndsRun:
        raise
    except UserError as error:
        return NOT_MADE, str(error)
    return MADE, ""


class _StopOfCluster:
    """The signals of a cluster as one Ctrl-C, at which a training writes a checkpoint at the end of its step.

    SIGTERM comes from a cancellation or a preemption; submitit has the cluster send another signal some time before the
    end of the job's time, and queues the job again.

    Args:
        notice: the signal before the end of the job's time.
    """

    def __init__(self, notice: int) -> None:
        self._notice = notice
        self._before: dict[int, Any] = {}
        self._received: set[int] = set()

    def __enter__(self) -> None:
        handlers: dict[int, Callable[[int, FrameType | None], Any]] = {
            signal.SIGINT: signal.default_int_handler,  # a job of this machine starts with Ctrl-C ignored
            signal.SIGTERM: self._receive,
            self._notice: self._receive,
        }
        for number, handler in handlers.items():
            self._before[number] = signal.signal(number, handler)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _: FrameType | None) -> None:
        first = not self._received
        self._received.add(number)
        if first:
            os.kill(os.getpid(), signal.SIGINT)

    def queue_again(self) -> None:
        """Have submitit queue the job again, if its time ends; else do nothing."""
        handler = self._before[self._notice]
        if self._notice in self._received and callable(handler):
            handler(self._notice, None)
