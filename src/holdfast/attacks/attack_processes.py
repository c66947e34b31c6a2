"""The processes of an attack on one machine: the first starts the others and waits until they have finished."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.journal import Journal, Key
from holdfast.errors import UserError

_WAIT = 0.2
_STARTED_BY = "HOLDFAST_STARTED_BY"
"""Environment variable of a started process: the number of the process that started it."""


@contextlib.contextmanager
def other_processes(
    settings: AttackSettings, rank: int, command: Sequence[str] | None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start the other processes of ``--processes N``: the same command, each with its rank.

    A started process ends as soon as the first one does, even if that is killed.
    """
    if _STARTED_BY in os.environ:
        threading.Thread(target=_end_with, args=(int(os.environ[_STARTED_BY]),), daemon=True).start()
    if settings.processes == 1 or "WORLD_SIZE" in os.environ or rank > 0:
        yield []
        return
    import torch

    count = settings.processes
    threads = max(1, torch.get_num_threads() // count)
    if command is None:
        raise UserError("several processes run the same command: start this script with torchrun or accelerate launch")
    words = [sys.executable, "-m", "holdfast", *command[1:]]
    children = []
    for number in range(1, count):
        environment = {**os.environ, "RANK": str(number), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": str(threads)}
        environment[_STARTED_BY] = str(os.getpid())
        children.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield children
    finally:
        torch.set_num_threads(before)
        for child in children:
            if sys.exc_info()[0] is not None:
                child.terminate()
            child.wait()


def _end_with(parent: int) -> None:
    """Exit when the process that started this one has ended; what it has finished is in its journal."""
    while os.getppid() == parent:
        time.sleep(_WAIT)
    os._exit(1)


def wait_for(
    journal: Journal, world: int, children: Sequence[subprocess.Popen[bytes]], shares: Sequence[Sequence[Key]]
) -> None:
    """Wait until the other processes have finished their shares.

    Raises:
        UserError: one of them has ended early; processes of a launcher are not checked.
    """
    waiting = list(range(1, world))
    while waiting := [rank for rank in waiting if not journal.finished(rank, shares[rank])]:
        for rank, child in enumerate(children, start=1):
            if rank in waiting and child.poll() is not None and not journal.finished(rank, shares[rank]):
                raise UserError(
                    f"process {rank} of {world} ended early, with exit code {child.returncode}: "
                    "finished examples are kept; continue with --resume"
                )
        time.sleep(_WAIT)
