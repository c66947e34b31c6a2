"""A run's folder: begun, continued, finished, and never mixed up with another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.errors import UserError
from holdfast.files import telling_write_errors, write_json
from holdfast.results import read_result
from holdfast.training.checkpoints import checkpoints, latest_intact
from holdfast.training.log import METRICS_FILE, RUN_FILE
from holdfast.training.selection import BEST_FOLDER

_STAGING = ".export"
# Where a model or a file lies; the hashes of both are compared.
_MAY_DIFFER = {"versions", "base_model", "source"}
# Either of them makes the folder a model, and is written last of all.
_MODEL_FILES = ("modules.json", "config.json")


def finished_run(folder: Path, result_file: Path, verb: str, resume: bool) -> dict[str, Any] | None:
    """The result of a run that is finished already; None where there is something to do.

    Args:
        folder: the run's.
        result_file: where its result goes.
        verb: what makes such runs, as the command line calls it.
        resume: whether a run that is there was to be continued.

    Raises:
        UserError: the folder is a file, or holds something else or a run that was not to be continued.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise UserError(f"{folder} is a file; the model needs a folder: choose another --output")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return None
    if RUN_FILE not in names:
        raise UserError(f"{folder} holds other files and no run of {verb}: choose an empty --output folder")
    if not resume:
        raise UserError(f"{folder} holds another run: continue it with --resume or choose another --output folder")
    if names.isdisjoint(_MODEL_FILES) or not result_file.exists():
        return None
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
    before = json.loads(path.read_text(encoding="utf-8"))
    for name, was, now in _differences(before, json.loads(json.dumps(record))):
        raise UserError(f"cannot resume {folder}: {name} was {was!r} and is now {now!r}")
    checkpoint, damaged = latest_intact(folder)
    for unfit in damaged:
        console.print(f"removing {unfit.name}: it is unfinished or damaged", highlight=False)
        shutil.rmtree(unfit, ignore_errors=True)
    console.print(f"resuming from {checkpoint.name if checkpoint else 'the start'}", highlight=False)
    return checkpoint


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
    for path in [folder / BEST_FOLDER, *([] if keep_checkpoints else checkpoints(folder))]:
        shutil.rmtree(path, ignore_errors=True)


def forget_unless_resumable(folder: Path) -> None:
    """After an error before the first checkpoint, leave the folder as if the run had not begun."""
    if checkpoints(folder) or not (folder / RUN_FILE).exists():
        return
    for name in (BEST_FOLDER, _STAGING):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (RUN_FILE, METRICS_FILE):
        (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _differences(before: dict[str, Any], now: dict[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in sorted({*before, *now} - _MAY_DIFFER):
        was, given = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(given, dict):
            yield from _differences(was, given, f"{within}{name} ")
        elif was != given:
            yield f"{within}{name}", was, given
