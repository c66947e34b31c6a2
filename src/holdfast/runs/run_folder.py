"""The folder of a run: its lock, and the export of a finished model into it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.errors import UserError
from holdfast.files import created_folder, locked, one_line_write_errors, remove_temporary
from holdfast.launch import is_first_process
from holdfast.runs.checkpoints import remove_rest

LOCK_FILE = ".lock"
"""If this file exists and is locked, a run is working in the folder."""
STAGING = ".export"


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a run's folder inside the block; of several processes only the first one locks it.

    A missing folder is created, and removed at the end if it is empty.

    Raises:
        UserError: another run is working in the folder, or it cannot be written.
    """
    if not is_first_process() or (folder.exists() and not folder.is_dir()):  # the run reports the error if it is a file
        yield
        return
    with created_folder(folder), locked(folder / LOCK_FILE, folder):
        remove_temporary(folder)
        remove_rest(folder)
        yield


def export(folder: Path, save: Callable[[Path], None], last: str) -> None:
    """Let ``save`` write into a staging folder, then move the files into ``folder``, the file ``last`` at the end.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    staging = folder / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    try:
        with one_line_write_errors(folder):
            staging.mkdir(parents=True)
            save(staging)
    except UserError:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    for path in staging.rglob("*.safetensors"):
        path.chmod(0o644)  # safetensors makes files that only the owner can read
    for entry in sorted(staging.iterdir(), key=lambda entry: entry.name == last):
        target = folder / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        entry.replace(target)
    staging.rmdir()
