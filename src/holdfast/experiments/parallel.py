"""Parallel work on cells: several processes, each with one device and one cell at a time."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError
from holdfast.experiments.cell_job import IN_USE, NOT_MADE, outcome_of
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.durations import time_left
from holdfast.progress import stage
from holdfast.stopping import SIGNALS, StopOfWorker

if TYPE_CHECKING:
    from rich.console import Console


STOPPING = "stopping: trainings write a checkpoint at the end of their step; a second signal stops at once"
WAIT = 2.0
"""Seconds between two checks whether another run has made a cell, or a process was killed."""
LATER = 10.0
"""Seconds before a cell that another run is making is tried again."""


def devices_here() -> int:
    """Return the number of cells to make at the same time: one per GPU; without a GPU one, which uses all cores."""
    import torch

    return max(1, torch.cuda.device_count())


def make_in_parallel(
    todo: Sequence[Cell], store: Store, setting: Setting, jobs: int, *, console: Console, command: list[str]
) -> dict[str, str]:
    """Make cells, each as soon as its inputs exist, and return the reason for each that could not be made.

    Each process is spawned (no fork), sees one GPU and prints nothing; a line is printed at the start and end of each
    cell. No process outlives this one, however it ends; the next run resumes their work from its last checkpoint. In
    ``todo``, each cell comes after its inputs.

    Raises:
        UserError: a process was killed.
    """
    context = multiprocessing.get_context("spawn")
    numbers = context.SimpleQueue()
    for number in range(jobs):
        numbers.put(number)
    failed: dict[str, str] = {}
    waiting, running = list(todo), dict[Future[tuple[str, str]], Cell]()
    not_before: dict[str, float] = {}  # of cells that another run is making
    with (
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_initialise_worker, initargs=(numbers, jobs)) as pool,
        _terminated_on_error(console) as one_has_ended,
        stage(console, "making cells", unit="cells", total=len(todo)) as making,
    ):
        while waiting or running:
            open_ = ready(waiting, list(running.values()), failed)
            due = [cell for cell in open_ if not_before.get(cell.key, 0.0) <= time.monotonic()]
            for cell in due[: jobs - len(running)]:
                waiting.remove(cell)
                console.print(f"{cell.kind}: {cell.label}", markup=False, highlight=False)
                try:
                    running[pool.submit(_make, cell, store, setting, command, jobs)] = cell
                except BrokenProcessPool:
                    raise _killed([*running.values(), cell]) from None
            if not running:
                time.sleep(WAIT)
            ended, _ = wait(running, timeout=WAIT, return_when=FIRST_COMPLETED)
            if not ended and one_has_ended():
                raise _killed(running.values())
            for future in ended:
                outcome, reason = _outcome_of(future, running)
                cell = running.pop(future)
                if outcome == IN_USE:
                    waiting.append(cell)
                    if cell.key not in not_before:
                        console.print(f"left for later: {reason}", markup=False, highlight=False)
                    not_before[cell.key] = time.monotonic() + LATER
                    continue
                making.update(making.done + 1)
                if outcome == NOT_MADE:
                    failed[cell.key] = reason
                    outcome = f"{NOT_MADE}: {reason}"
                left = time_left([*waiting, *running.values()], store, jobs)
                console.print(
                    f"{outcome} ({cell.kind}: {cell.label}), {len(waiting)} more wait{left}",
                    markup=False,
                    highlight=False,
                )
    return failed


@contextmanager
def _terminated_on_error(console: Console) -> Iterator[Callable[[], bool]]:
    """Terminate the processes started inside the block if it raises, and wait for their checkpoints.

    The pool would wait for their work. A second signal does not wait.

    Yields:
        A function that returns True if one of the processes has ended. The pool itself does not see the end of those
        that it started last before one of the others has made its cell.
    """
    before, processes = set(multiprocessing.active_children()), set[BaseProcess]()

    def one_has_ended() -> bool:
        processes.update(set(multiprocessing.active_children()) - before)
        return any(process.exitcode is not None for process in processes)

    try:
        yield one_has_ended
    except BaseException:
        processes.update(set(multiprocessing.active_children()) - before)
        for process in processes:
            process.terminate()
        if processes:
            console.print(STOPPING, markup=False, highlight=False)
        try:
            ends = [process.sentinel for process in processes]
            while ends:
                ends = [end for end in ends if end not in multiprocessing.connection.wait(ends)]
        except BaseException:
            for process in processes:
                process.kill()
            raise
        raise


def _outcome_of(future: Future[tuple[str, str]], running: Mapping[Future[tuple[str, str]], Cell]) -> tuple[str, str]:
    """Return what became of a cell, and why if it was not made."""
    try:
        return future.result()
    except BrokenProcessPool:  # all processes of the pool end; the first one is unknown
        raise _killed(running.values()) from None


def _killed(cells: Iterable[Cell]) -> UserError:
    labels = ", ".join(f"{cell.kind} {cell.label}" for cell in cells)
    return UserError(
        f"a process that was making one of these was killed (out of memory?): {labels}; the same command goes on "
        "from where they were, and with a smaller --jobs it needs less memory"
    )


def ready(waiting: list[Cell], running: Sequence[Cell], failed: dict[str, str]) -> list[Cell]:
    """Return the cells whose inputs are finished; move cells with a failed input from ``waiting`` to ``failed``."""
    for cell in list(waiting):
        cause = next((failed[taken.key] for taken in cell.inputs.values() if taken.key in failed), None)
        if cause is not None:
            failed[cell.key] = cause
            waiting.remove(cell)
    missing = {cell.key for cell in (*waiting, *running)}
    return [cell for cell in waiting if not any(taken.key in missing for taken in cell.inputs.values())]


def _initialise_worker(numbers: Any, jobs: int) -> None:
    """Take one GPU, before CUDA is initialised, and a share of the cores.

    A terminal sends its signals to all processes: they are left to the first one, which terminates the others.
    """
    import torch

    for each in SIGNALS:
        signal.signal(each, StopOfWorker() if each == signal.SIGTERM else signal.SIG_IGN)
    number = numbers.get()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(n) for n in range(torch.cuda.device_count())]
    if names:
        os.environ["CUDA_VISIBLE_DEVICES"] = names[number % len(names)]
    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent process ends, even if it is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make(cell: Cell, store: Store, setting: Setting, command: list[str], jobs: int) -> tuple[str, str]:
    """Make one cell in a worker process; return what became of it, and why if it was not made."""
    from rich.console import Console

    return outcome_of(cell, store, setting, Console(quiet=True), command, jobs)
