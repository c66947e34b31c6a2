"""Which process makes a run, and whether it is still there."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_STARTED = 19
"""Of the fields behind the name in /proc/PID/stat, counted from 0: when the process started, in ticks since boot."""


def this_process() -> dict[str, Any]:
    """What tells this process from any other: the host's name, the number, and where the system says it the start."""
    return {"host": platform.node(), "pid": os.getpid(), "started": _started(os.getpid())}


def is_alive(process: Mapping[str, Any]) -> bool | None:
    """Whether a process is still there; None where that cannot be seen, as of one on another machine.

    Args:
        process: what `this_process` said of it.
    """
    pid = process.get("pid")
    if process.get("host") != platform.node() or type(pid) is not int or os.name != "posix":
        return None
    try:
        os.kill(pid, 0)  # a signal that is none: only whether it could be sent
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, and somebody else's
        pass
    started = process.get("started")
    # Numbers are given out again: a process of that number that started at another time is another one.
    return started is None or started == _started(pid)


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name in brackets may hold blanks
    return None if fields[0] == "Z" else int(fields[_STARTED])  # dead, and not yet buried by its parent
