"""Cells side by side: a process for each device, each with one cell at a time."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import EndsRun, UserError
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.durations import time_left
from holdfast.experiments.stages import Setting
from holdfast.experiments.work import make
from holdfast.files import InUse
from holdfast.progress import stage

if TYPE_CHECKING:
    from rich.console import Console


WAIT = 2.0
"""Seconds until it is looked again whether another run has made a cell."""


def devices_here() -> int:
    """How many cells this machine makes at once: one on each GPU; one where there is none, which takes all cores."""
    import torch

    return max(1, torch.cuda.device_count())


def make_side_by_side(
    todo: Sequence[Cell], store: Store, setting: Setting, jobs: int, *, console: Console, command: list[str]
) -> dict[str, str]:
    """Make cells, each as soon as what it takes is there, and return for each that could not be made the reason.

    Each process is new (no fork), sees one GPU, and is silent but for the line at a cell's start and end. None outlives
    this one, however that ends: what they were at goes on from its last checkpoint the next time.

    Args:
        todo: unfinished cells, each after those that it takes.
        store: where they are kept.
        setting: the reproduction's.
        jobs: how many processes.
        console: for a line per cell.
        command: for the record.

    Raises:
        UserError: a process was killed.
    """
    context = multiprocessing.get_context("spawn")
    numbers = context.SimpleQueue()
    for number in range(jobs):
        numbers.put(number)
    failed: dict[str, str] = {}
    waiting, running = list(todo), dict[Future[str | None], Cell]()
    with (
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_settle, initargs=(numbers, jobs)) as pool,
        _ended_with_an_error(),
        stage(console, "making cells", unit="cells", total=len(todo)) as making,
    ):
        while waiting or running:
            for cell in ready(waiting, list(running.values()), failed)[: jobs - len(running)]:
                waiting.remove(cell)
                console.print(f"{cell.kind}: {cell.label}", markup=False, highlight=False)
                running[pool.submit(_make, cell, store, setting, command, jobs)] = cell
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                reason = _reason_of(future, running)
                cell = running.pop(future)
                making.update(making.done + 1)
                if reason is not None:
                    failed[cell.key] = reason
                told = "made" if reason is None else f"not made: {reason}"
                left = time_left([*waiting, *running.values()], store, jobs)
                console.print(
                    f"{told} ({cell.kind}: {cell.label}), {len(waiting)} more wait{left}", markup=False, highlight=False
                )
    return failed


@contextmanager
def _ended_with_an_error() -> Iterator[None]:
    """End the processes that were started inside where it is left by an error: a pool waits for what they are doing."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise


def _reason_of(future: Future[str | None], running: Mapping[Future[str | None], Cell]) -> str | None:
    """Why a cell could not be made, or None."""
    try:
        return future.result()
    except BrokenProcessPool:  # then all its processes end, and nobody can tell which of them was the first
        labels = ", ".join(f"{cell.kind} {cell.label}" for cell in running.values())
        raise UserError(
            f"a process that was making one of these was killed (out of memory?): {labels}; the same command goes on "
            "from where they were, and with a smaller --jobs it needs less memory"
        ) from None


def ready(waiting: list[Cell], running: Sequence[Cell], failed: dict[str, str]) -> list[Cell]:
    """The cells whose inputs are there. Those that take a cell that failed fail with it, and wait no more."""
    for cell in list(waiting):
        cause = next((failed[taken.key] for taken in cell.inputs.values() if taken.key in failed), None)
        if cause is not None:
            failed[cell.key] = cause
            waiting.remove(cell)
    missing = {cell.key for cell in (*waiting, *running)}
    return [cell for cell in waiting if not any(taken.key in missing for taken in cell.inputs.values())]


def _settle(numbers: Any, jobs: int) -> None:
    """Take one GPU, before CUDA is asked for, and a share of the cores."""
    import torch

    number = numbers.get()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(n) for n in range(torch.cuda.device_count())]
    if names:
        os.environ["CUDA_VISIBLE_DEVICES"] = names[number % len(names)]
    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the process that started this one, which does not tell if it is killed, and end too."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make(cell: Cell, store: Store, setting: Setting, command: list[str], jobs: int) -> str | None:
    """Make one cell in a process of its own; the reason why it could not be made."""
    from rich.console import Console

    while True:
        try:
            make(cell, store, setting, Console(quiet=True), command, jobs=jobs)
        except InUse:
            time.sleep(WAIT)
        except EndsRun:
            raise
        except UserError as error:
            return str(error)
        else:
            return None
