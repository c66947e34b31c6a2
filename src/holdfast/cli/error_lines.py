"""One-line messages for user errors."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

from holdfast.errors import UserError, did_you_mean
from holdfast.files import NO_SPACE, system_error
from holdfast.launch import is_first_process, number_here, processes, rank
from holdfast.terminal import visible

# Typer's error for an invalid command line; the module of the class differs between Typer's releases.
_UsageError: Any = typer.BadParameter.__base__

# Errors of the operating system, not of this program.
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENAMETOOLONG)


def complain(line: str) -> None:
    """Print a line to standard error, in the first process only."""
    if is_first_process():
        _print_line(line)


def fail(line: str) -> None:
    """Print why this run ends; only the first process to fail prints it, with its rank."""
    if _is_first_to_fail():
        process = f"process {rank()} of {processes()}: " if rank() else ""
        _print_line(process + line)


def _print_line(line: str) -> None:
    print("holdfast:", visible(line).replace("\n", "\\n"), file=sys.stderr, flush=True)


def _is_first_to_fail() -> bool:
    """Return True for the first process to fail, or without a process group for the first one of the machine."""
    group: Any = sys.modules.get("torch.distributed")
    if group is None or not group.is_available() or not group.is_initialized():
        return number_here() == 0
    try:
        return bool(group.distributed_c10d._get_default_store().add("holdfast/failed", 1) == 1)
    except Exception:  # the process that kept the store is gone: print it, possibly twice
        return True


def _lost_another(error: Exception) -> bool:
    """Return True if the error means that another process of a distributed run was lost."""
    signs = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo", "NCCL")
    return processes() > 1 and isinstance(error, RuntimeError) and any(sign in str(error) for sign in signs)


def warn_changed(paths: Iterable[Path]) -> None:
    """Print a warning for each result file that was changed after it was written."""
    for path in paths:
        complain(f"{path} was changed after it was written: its numbers may not be the measured ones")


def one_line(error: Exception) -> str | None:
    """Return a message for ``error`` in one line; None if it is a bug of holdfast, which needs the traceback."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, _UsageError):
        return str(UserError(_usage_line(error)))  # limits the length of the line
    if _lost_another(error):
        return "another process of this run ended without a message (perhaps it was killed): continue with --resume"
    for cause in _causes(error):
        if system_error(cause) in NO_SPACE:
            name = getattr(cause, "filename", None)
            where = f" while writing {name}" if name else ""
            return f"no space left on the disk{where}: free some space and run again"
        if isinstance(cause, OSError) and cause.errno in _NOT_OURS and cause.filename:
            name = str(cause.filename)
            return f"{name if len(name) < 200 else name[:200] + '…'}: {os.strerror(cause.errno)}"
        if isinstance(cause, MemoryError) or type(cause).__name__ == "OutOfMemoryError":
            return "out of memory: use a smaller --batch-size or --max-length, or a smaller model"
    return None


def show_traceback(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """Print the traceback of a bug; control characters are escaped, as the message may quote a file."""
    print(visible("".join(traceback.format_exception(kind, error, frames))), end="", file=sys.stderr)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _usage_line(error: Any) -> str:
    context = error.ctx
    if context is None:
        return str(error.format_message())
    help_hint = f"; see '{context.command_path} --help'"
    option = getattr(error, "option_name", None)
    known = [name for parameter in context.command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    if option is not None and option not in known:
        options = [name for name in (*known, "--help") if name.startswith("-")]
        return f"there is no option {option}{did_you_mean(option, options)}{help_hint}"
    return str(error.format_message()).rstrip(".") + help_hint
