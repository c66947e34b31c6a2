"""Checkpoints that can be trusted: sealed with the hashes of their files, and skipped when they do not match."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from holdfast.files import sha256, write_json

SEAL = "sealed.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as complete: write the size and SHA-256 of each of its files, last of all."""
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != SEAL)
    write_json(checkpoint / SEAL, {str(path.relative_to(checkpoint)): sha256(path) for path in files})


def is_intact(checkpoint: Path) -> bool:
    """Whether the checkpoint was sealed and every file is still as it was then."""
    try:
        hashes = json.loads((checkpoint / SEAL).read_text(encoding="utf-8"))
        return all(sha256(checkpoint / name) == digest for name, digest in hashes.items())
    except (OSError, ValueError, AttributeError):
        return False


def step_of(checkpoint: Path) -> int:
    """The step in a checkpoint folder's name."""
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise ValueError(f"{checkpoint} is not named checkpoint-N")
    return int(match.group(1))


def checkpoints(folder: Path) -> list[Path]:
    """All checkpoint folders of a run, oldest first, intact or not."""
    found = [path for path in folder.glob("checkpoint-*") if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def latest_intact(folder: Path) -> tuple[Path | None, list[Path]]:
    """The newest intact checkpoint, and the newer ones that a kill or a disk error left damaged."""
    damaged: list[Path] = []
    for checkpoint in reversed(checkpoints(folder)):
        if is_intact(checkpoint):
            return checkpoint, damaged
        damaged.append(checkpoint)
    return None, damaged


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the ``count`` newest checkpoints."""
    for checkpoint in checkpoints(folder)[:-count]:
        shutil.rmtree(checkpoint, ignore_errors=True)
