"""What a launcher (torchrun, accelerate launch) says of this process, read from the environment, without torch."""

from __future__ import annotations

import os

from holdfast.errors import UserError


def rank() -> int:
    """This process's number among all of a run; 0 where it is the only one."""
    return int(os.environ.get("RANK") or 0)


def processes() -> int:
    """How many processes a run has, on all its machines."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def local_rank() -> int | None:
    """This process's number among those of its machine; None where the launcher does not say."""
    number = os.environ.get("LOCAL_RANK")
    return int(number) if number else None


def number_here() -> int:
    """This process's number among those of its machine; among all where the launcher does not say."""
    number = local_rank()
    return rank() if number is None else number


def refuse_company(verb: str) -> None:
    """Of a verb that does not share its work, every process would do all of it and write over what the others wrote.

    Raises:
        UserError: there are several processes.
    """
    if processes() > 1:
        raise UserError(f"{verb} runs in one process: start it without torchrun or accelerate launch")


def is_first_process() -> bool:
    """Whether this is the first, or only, process of a run."""
    return rank() == 0
