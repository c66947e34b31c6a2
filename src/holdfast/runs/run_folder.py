"""The folder of a run: begin, resume and finish a run, without mixing it with files of another run."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.errors import EndsRun, UserError
from holdfast.files import locked, created_folder, remove_temporary, one_line_write_errors, write_json
from holdfast.model_lookup import altered_files
from holdfast.launch import is_first_process
from holdfast.results import read_result
from holdfast.runs.checkpoints import (
    BEST_FOLDER,
    best_is_damaged,
    checkpoints,
    latest_intact,
    refuse_those_of_others,
    remove,
    remove_rest,
    why_unfit,
)
from holdfast.runs.run_log import METRICS_FILE, RUN_FILE
from holdfast.runs.run_record import (
    RUN,
    damage_in,
    differences,
    digest_in,
    digest_of,
    read_record,
    refuse_foreign,
    refuse_log_of_another,
    shown,
)

LOCK_FILE = ".lock"
"""If this file exists and is locked, a run is working in the folder."""
_STAGING = ".export"
_EMPTY = "eval"  # sentence-transformers' trainer makes it for its own reports
# Either of them makes the folder a model, and is written last.
_MODEL_FILES = ("modules.json", "config.json")


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


def finished_run(
    folder: Path, result_file: Path, verb: str, resume: bool, said: Mapping[str, Any], console: Console
) -> dict[str, Any] | None:
    """Return the result of this run if it is finished already, else None.

    Args:
        folder: folder of the run.
        result_file: path of its result.
        verb: command that makes such runs, such as "train".
        resume: whether an existing run is to be resumed.
        said: the part of the record that follows from the settings, without reading data.
        console: console for messages on damaged files.

    Raises:
        UserError: the folder is a file, holds other files, holds a run and ``resume`` is False, or holds another
            finished run; or a file in it belongs to another run.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise UserError(f"{folder} is a file; the model needs a folder: choose another --output")
    names = {path.name for path in folder.iterdir()} - {LOCK_FILE}
    if not names:
        return None
    if RUN_FILE not in names:
        raise UserError(f"{folder} holds other files and no run of {verb}: choose an empty --output folder")
    if not resume:
        raise UserError(f"{folder} holds another run: continue it with --resume or choose another --output folder")
    if names.isdisjoint(_MODEL_FILES) or not result_file.exists():
        return None
    now = json.loads(json.dumps(said))
    record = _own_record(folder)
    _refuse_another(folder, _shared(record, now), now)
    _refuse_parts_of_others(folder, console)
    result = read_result(result_file)
    _refuse_foreign_result(folder, result_file, result, verb, digest_of(record))
    return result


def begin(folder: Path, record: dict[str, Any], console: Console) -> Path | None:
    """Write the run's record, or compare it with the existing one and return the checkpoint to resume from.

    Raises:
        UserError: the folder holds another run (the message names the difference), or a file of another run.
    """
    path = folder / RUN_FILE
    if not path.exists():
        write_json(path, record)
        return None
    _refuse_another(folder, _own_record(folder), json.loads(json.dumps(record)))
    _refuse_parts_of_others(folder, console)
    if best_is_damaged(folder):
        console.print(f"{folder / BEST_FOLDER} is damaged: the run goes back to before its step", highlight=False)
    checkpoint, damaged = latest_intact(folder)
    for unfit in damaged:
        console.print(f"removing {unfit.name}: {why_unfit(unfit)}", highlight=False)
        remove(unfit)
    console.print(f"resuming from {checkpoint.name if checkpoint else 'the start'}", highlight=False)
    return checkpoint


def _own_record(folder: Path) -> dict[str, Any]:
    try:
        return read_record(folder / RUN_FILE)
    except UserError as error:
        raise UserError(f"{error}; begin anew in another folder") from error


def _refuse_parts_of_others(folder: Path, console: Console) -> None:
    """Refuse files of another run in a run's folder; report damage of its log, and files that name no run.

    Raises:
        UserError: a file belongs to another run; the message names it and both runs.
    """
    unnamed = [path.relative_to(folder).as_posix() for path in refuse_those_of_others(folder)]
    refuse_log_of_another(folder / METRICS_FILE, digest_in(folder))
    if unnamed:
        what = ", ".join(unnamed)
        message = f"{what} in {folder}: an earlier version wrote it, which did not say of which run; taken for this run's"
        console.print(message, highlight=False, markup=False)
    for line in damage_in(folder):
        console.print(line, highlight=False, markup=False)


def _refuse_foreign_result(folder: Path, path: Path, result: dict[str, Any], verb: str, run: str) -> None:
    """Refuse a result that does not belong to the run in ``folder``, and weights that the run did not write."""
    if result["kind"] != verb:
        raise EndsRun(f"{path} is a result of {result['kind']}, and {folder} holds a run of {verb}: move it away")
    refuse_foreign(path, result.get(RUN), run)
    for name in altered_files(folder, result["model_files"]):
        if name.endswith(".safetensors"):
            raise EndsRun(
                f"{folder / name} is not what run {shown(run)} wrote there, by the hash in {path}: put its own back, "
                "or train into another folder"
            )


def export(folder: Path, save: Callable[[Path], None], last: str) -> None:
    """Let ``save`` write into a staging folder, then move the files into ``folder``, the file ``last`` at the end.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    staging = folder / _STAGING
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


def clear(folder: Path, *, keep_checkpoints: bool) -> None:
    """Remove files that only an unfinished run needs."""
    for name in (BEST_FOLDER, _EMPTY):
        shutil.rmtree(folder / name, ignore_errors=True)
    for checkpoint in [] if keep_checkpoints else checkpoints(folder):
        remove(checkpoint)


def forget_unless_resumable(folder: Path) -> None:
    """Remove the files of a run that failed before its first checkpoint, so that the folder is as before.

    `alone` removes the folder at the end if it was created for the run.
    """
    if checkpoints(folder) or not (folder / RUN_FILE).exists():
        return
    for name in (BEST_FOLDER, _EMPTY, _STAGING):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (RUN_FILE, METRICS_FILE):
        (folder / name).unlink(missing_ok=True)


def _refuse_another(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, was, given in differences(before, now):
        raise UserError(f"cannot resume {folder}: {name} was {was!r} and is now {given!r}")


def _shared(record: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return the part of ``record`` whose keys are in ``said``, recursively."""
    found = {}
    for name in record.keys() & said.keys():
        own, new = record[name], said[name]
        found[name] = _shared(own, new) if isinstance(own, dict) and isinstance(new, dict) else own
    return found
