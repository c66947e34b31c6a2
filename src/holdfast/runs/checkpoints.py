"""Checkpoints sealed with the hashes of their files; a checkpoint whose files do not match is skipped.

The best weights so far are stored next to the checkpoints, in ``best/``, with their own seal. Each checkpoint records
the step of the best weights at the time it was written. If the best weights are missing or damaged, only a checkpoint
from before that step can be used: a run resumed from it repeats the same evaluations and keeps the same weights.

Each seal names its run (`holdfast.runs.run_record`); files of another run are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from holdfast.files import read_object, sha256, write_json
from holdfast.runs.run_record import RUN, digest_in, refuse_foreign

SEAL = "sealed.json"
BEST_FOLDER = "best"
BEST_FILE = "model.safetensors"
_BEST_NOTE = "best.json"
_AT_STOP = "at-stop"
_FILES, _OWN_HASH = "files", "sha256"  # keys of a seal
_NAME = re.compile(r"checkpoint-(\d+)")


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as complete: write its run and the SHA-256 of each of its files, as the last file."""
    best = checkpoint.parent / BEST_FOLDER / BEST_FILE
    step = best_notes(best).get("step")  # None also for damaged weights, from which the run went back
    write_json(checkpoint / _BEST_NOTE, {"step": None if step is None else int(step)})
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != SEAL)
    hashes = {str(path.relative_to(checkpoint)): sha256(path) for path in files}
    sealed = {RUN: digest_in(checkpoint.parent), _FILES: hashes}
    write_json(checkpoint / SEAL, {**sealed, _OWN_HASH: _hash_of(sealed)})


def is_intact(checkpoint: Path) -> bool:
    """Return True if the checkpoint was sealed and no file has changed since."""
    hashes = _read_seal(checkpoint).get(_FILES, {})
    return bool(hashes) and _first_changed(checkpoint, hashes) is None


def _read_seal(checkpoint: Path) -> dict[str, Any]:
    """Return a checkpoint's seal, ``{files: {name: hash}, run: digest}``; empty if it is missing or damaged."""
    sealed = read_object(checkpoint / SEAL)
    if _OWN_HASH not in sealed:  # of an earlier version: only the hashes
        return {_FILES: sealed} if all(isinstance(digest, str) for digest in sealed.values()) else {}
    own_hash = sealed.pop(_OWN_HASH)
    return sealed if own_hash == _hash_of(sealed) and isinstance(sealed.get(_FILES), dict) else {}


def _hash_of(sealed: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def _first_changed(checkpoint: Path, hashes: dict[str, Any]) -> str | None:
    for name, digest in hashes.items():
        try:
            if sha256(checkpoint / name) != digest:
                return name
        except (OSError, ValueError):  # the file is gone, or its name is damaged
            return name
    return None


def refuse_foreign_checkpoints(folder: Path) -> list[Path]:
    """Refuse checkpoints and best weights in a run's folder that belong to another run.

    Returns:
        The checkpoints and best weights that name no run, as written by earlier versions.

    Raises:
        UserError: a file belongs to another run; the message names it and both runs.
    """
    run, unnamed = digest_in(folder), []
    for checkpoint in checkpoints(folder):
        sealed = _read_seal(checkpoint)
        refuse_foreign(checkpoint, sealed.get(RUN), run)
        if sealed.get(_FILES) and RUN not in sealed:
            unnamed.append(checkpoint)
    best = folder / BEST_FOLDER / BEST_FILE
    notes = best_notes(best)
    refuse_foreign(best, notes.get(RUN), run)
    return [*unnamed, best] if notes and RUN not in notes else unnamed


def seal_best(path: Path, digest: str) -> None:
    """Record the SHA-256 of the best weights that are about to be written to ``path``.

    The hash of the current file is kept as well, since the process may be killed before the file is replaced.
    """
    known = read_object(path.with_name(SEAL)).get(BEST_FILE)
    before = known[-1:] if isinstance(known, list) else []
    write_json(path.with_name(SEAL), {BEST_FILE: [*before, digest]})


def best_is_intact(folder: Path) -> bool:
    """Return True if the best weights of a run exist and are unchanged."""
    path = folder / BEST_FOLDER / BEST_FILE
    try:
        return sha256(path) in read_object(path.with_name(SEAL)).get(BEST_FILE, [])
    except (OSError, TypeError):
        return False


def best_is_damaged(folder: Path) -> bool:
    """Return True if the best weights of a run exist and have changed since they were written."""
    return (folder / BEST_FOLDER / BEST_FILE).exists() and not best_is_intact(folder)


def best_notes(path: Path) -> dict[str, str]:
    """Return the metadata of the best weights at ``path``: step, score, run; empty if the file is damaged."""
    try:
        with safe_open(str(path), framework="np") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError):
        return {}


def why_unfit(checkpoint: Path) -> str:
    """Return the reason why `latest_intact` skipped a checkpoint."""
    if is_intact(checkpoint):
        return "the best weights that belong to it are damaged"
    if not (checkpoint / SEAL).exists():
        return "it is unfinished"
    changed = _first_changed(checkpoint, _read_seal(checkpoint).get(_FILES, {}))
    return "it is damaged" + (f" ({changed})" if changed is not None else "")


def step_of(checkpoint: Path) -> int:
    """Return the step in a checkpoint folder's name."""
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise ValueError(f"{checkpoint} is not named checkpoint-N")
    return int(match.group(1))


def checkpoints(folder: Path) -> list[Path]:
    """Return all checkpoint folders of a run, oldest first, intact or not."""
    found = [path for path in folder.glob("checkpoint-*") if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def latest_intact(folder: Path) -> tuple[Path | None, list[Path]]:
    """Return the newest checkpoint to resume from, and the newer ones that cannot be used."""
    damaged: list[Path] = []
    lost: int | None = None  # the step of best weights that are missing or damaged
    for checkpoint in reversed(checkpoints(folder)):
        if is_intact(checkpoint):
            best = read_object(checkpoint / _BEST_NOTE).get("step")
            if lost is None and best is not None and not best_is_intact(folder):
                lost = best
            if lost is None or step_of(checkpoint) < lost:
                return checkpoint, damaged
        damaged.append(checkpoint)
    return None, damaged


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the ``count`` newest checkpoints, and those written at a stop unless there is no newer one."""
    found = checkpoints(folder)
    passed = [checkpoint for checkpoint in found[:-1] if (checkpoint / _AT_STOP).exists()]
    regular = [checkpoint for checkpoint in found if checkpoint not in passed]
    for checkpoint in (*passed, *regular[:-count]):
        remove(checkpoint)


def mark_stop(checkpoint: Path) -> None:
    """Mark a checkpoint as one that a stop wrote between two regular ones: with the next one it is removed."""
    (checkpoint / _AT_STOP).touch()


def remove(checkpoint: Path) -> None:
    """Remove a checkpoint; it is renamed first, so that `remove_rest` finds what an interrupted removal leaves."""
    doomed = checkpoint.with_name(f".removed-{checkpoint.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    try:
        checkpoint.rename(doomed)
    except OSError:
        doomed = checkpoint
    shutil.rmtree(doomed, ignore_errors=True)


def remove_rest(folder: Path) -> None:
    """Remove the rest of checkpoints whose removal was interrupted."""
    for doomed in folder.glob(".removed-*"):
        shutil.rmtree(doomed, ignore_errors=True)
