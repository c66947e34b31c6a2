"""A run's folder: begun, continued, finished, and never mixed up with another one."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.errors import UserError
from holdfast.files import locked, made_for, remove_temporary, telling_write_errors, write_json
from holdfast.launch import is_first_process
from holdfast.results import read_result
from holdfast.training.checkpoints import (
    BEST_FOLDER,
    best_is_damaged,
    checkpoints,
    latest_intact,
    remove,
    remove_rest,
    why_unfit,
)
from holdfast.training.log import METRICS_FILE, RUN_FILE

LOCK_FILE = ".lock"
"""Where it is, and locked, a run is at work in the folder."""
_STAGING = ".export"
_EMPTY = "eval"  # sentence-transformers' trainer makes it for reports of its own
# Where a model or a file lies; the hashes of both are compared.
_MAY_DIFFER = {"versions", "base_model", "source"}
# Either of them makes the folder a model, and is written last of all.
_MODEL_FILES = ("modules.json", "config.json")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Have a run's folder to this run alone inside the block; of several processes only the first locks.

    A folder that is not there is made, and removed if it is empty in the end.

    Raises:
        UserError: another run is at work in it, or it cannot be written.
    """
    if not is_first_process() or (folder.exists() and not folder.is_dir()):  # the run says what is wrong with a file
        yield
        return
    with made_for(folder), locked(folder / LOCK_FILE, folder):
        remove_temporary(folder)
        remove_rest(folder)
        yield


def finished_run(
    folder: Path, result_file: Path, verb: str, resume: bool, said: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The result of this run where it is finished already; None where there is something to do.

    Args:
        folder: the run's.
        result_file: where its result goes.
        verb: what makes such runs, as the command line calls it.
        resume: whether a run that is there was to be continued.
        said: what the settings alone say of the run's record, before any data is read.

    Raises:
        UserError: the folder is a file, or holds something else, a run that was not to be continued or, finished,
            another one.
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
    _refuse_another(folder, _shared(_read_record(folder / RUN_FILE), now), now)
    return read_result(result_file)


def begin(folder: Path, record: dict[str, Any], console: Console) -> Path | None:
    """Write the run's record, or check it against the one that is there and tell the checkpoint to go on from.

    Raises:
        UserError: the run in the folder is another one; the line says in what.
    """
    path = folder / RUN_FILE
    if not path.exists():
        write_json(path, record)
        return None
    _refuse_another(folder, _read_record(path), json.loads(json.dumps(record)))
    if best_is_damaged(folder):
        console.print(f"{folder / BEST_FOLDER} is damaged: the run goes back to before its step", highlight=False)
    checkpoint, damaged = latest_intact(folder)
    for unfit in damaged:
        console.print(f"removing {unfit.name}: {why_unfit(unfit)}", highlight=False)
        remove(unfit)
    console.print(f"resuming from {checkpoint.name if checkpoint else 'the start'}", highlight=False)
    return checkpoint


def _read_record(path: Path) -> dict[str, Any]:
    """What the run in a folder is.

    Raises:
        UserError: the file is damaged.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged, so what run it is cannot be told: begin anew in another folder") from error
    if not isinstance(record, dict):
        raise UserError(f"{path} is damaged, so what run it is cannot be told: begin anew in another folder")
    return record


def export(folder: Path, save: Callable[[Path], None], last: str) -> None:
    """Let ``save`` fill a staging folder and move what it wrote into ``folder``, the file called ``last`` at the end.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    staging = folder / _STAGING
    shutil.rmtree(staging, ignore_errors=True)
    try:
        with telling_write_errors(folder):
            staging.mkdir(parents=True)
            save(staging)
    except UserError:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    for path in staging.rglob("*.safetensors"):
        path.chmod(0o644)  # safetensors writes for the owner alone; a model is there to be read
    for entry in sorted(staging.iterdir(), key=lambda entry: entry.name == last):
        target = folder / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        entry.replace(target)
    staging.rmdir()


def clear(folder: Path, *, keep_checkpoints: bool) -> None:
    """Remove what only an unfinished run needs."""
    for name in (BEST_FOLDER, _EMPTY):
        shutil.rmtree(folder / name, ignore_errors=True)
    for checkpoint in [] if keep_checkpoints else checkpoints(folder):
        remove(checkpoint)


def forget_unless_resumable(folder: Path) -> None:
    """After an error before the first checkpoint, leave the folder as if the run had not begun.

    `alone` removes it in the end, if it was made for the run.
    """
    if checkpoints(folder) or not (folder / RUN_FILE).exists():
        return
    for name in (BEST_FOLDER, _EMPTY, _STAGING):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (RUN_FILE, METRICS_FILE):
        (folder / name).unlink(missing_ok=True)


def _refuse_another(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, was, given in _differences(before, now):
        raise UserError(f"cannot resume {folder}: {name} was {was!r} and is now {given!r}")


def _shared(record: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Of a record what is said anew."""
    found = {}
    for name in record.keys() & said.keys():
        own, new = record[name], said[name]
        found[name] = _shared(own, new) if isinstance(own, dict) and isinstance(new, dict) else own
    return found


def _differences(before: dict[str, Any], now: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in sorted({*before, *now} - _MAY_DIFFER):
        was, given = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(given, dict):
            yield from _differences(was, given, f"{within}{name} ")
        elif was != given:
            yield f"{within}{name}", was, given
