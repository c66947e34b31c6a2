"""Process information from a launcher (torchrun, accelerate launch), read from the environment, without torch."""

from __future__ import annotations

import os

from holdfast.errors import UserError


def rank() -> int:
    """Return this process's rank among all processes of a run; 0 if it is the only one."""
    return int(os.environ.get("RANK") or 0)


def processes() -> int:
    """Return the number of processes of a run, on all its machines."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def local_rank() -> int | None:
    """Return this process's rank on its machine; None if the launcher does not set it."""
    number = os.environ.get("LOCAL_RANK")
    return int(number) if number else None


def number_here() -> int:
    """Return this process's rank on its machine; its rank among all if the launcher does not set it."""
    number = local_rank()
    return rank() if number is None else number


def require_single_process(verb: str) -> None:
    """Refuse several processes for a verb that runs in one: each would do all the work and overwrite the same files."""
    if processes() > 1:
        raise UserError(f"{verb} runs in one process: start it without torchrun or accelerate launch")


def is_first_process() -> bool:
    """Return True if this is the first, or only, process of a run."""
    return rank() == 0
