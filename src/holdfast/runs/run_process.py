"""Identification of the process of a run, and a check that it is still alive."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_STARTED = 19
"""Index of the start time (ticks since boot) among the fields after the name in /proc/PID/stat, from 0."""


def this_process() -> dict[str, Any]:
    """Return host name, process id and, on Linux, start time of this process, which identify it."""
    return {"host": platform.node(), "pid": os.getpid(), "started": _started(os.getpid())}


def is_alive(process: Mapping[str, Any]) -> bool | None:
    """Return True if a process (`this_process`) is alive, False if not, None if unknown (as on another machine)."""
    pid = process.get("pid")
    if process.get("host") != platform.node() or type(pid) is not int or os.name != "posix":
        return None
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists and belongs to another user
        pass
    started = process.get("started")
    # Process ids are reused: a process with another start time is another one.
    return started is None or started == _started(pid)


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name in brackets may contain spaces
    return None if fields[0] == "Z" else int(fields[_STARTED])  # a zombie: dead, not yet waited for
