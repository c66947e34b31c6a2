"""Lines of journals, each with the SHA-256 of the settings of its run and of its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from holdfast.errors import EndsRun, UserError
from holdfast.files import append_line, atomic_path, cannot_write


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a file, without an incomplete last line, which is left by a process that was killed."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise UserError(f"cannot read the journal {path}: {error.strerror or error}") from error


def row_of(line: bytes, run: str) -> dict[str, Any] | None:
    """Return the row of a line; None if the line is damaged or of another run."""
    try:
        entry = json.loads(line)
        row = entry["row"]
        # Earlier versions wrote no "run" into a line; the checksum includes the run.
        keys = entry.keys() in ({"row", "run", "sha256"}, {"row", "sha256"})
        intact = keys and entry.get("run", run) == run and entry["sha256"] == _checksum(row, run)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return row if intact and isinstance(row, dict) else None


def _checksum(row: dict[str, Any], run: str) -> str:
    return hashlib.sha256((run + json.dumps(row)).encode()).hexdigest()


def digest_of(settings: dict[str, Any]) -> str:
    """Return the SHA-256 of the settings, which identifies the run."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def add_row(path: Path, row: dict[str, Any], run: str) -> None:
    """Append a row to the journal of a run, whose folder is created.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    append_line(path, json.dumps({"row": row, "run": run, "sha256": _checksum(row, run)}))


def keep_lines(path: Path, lines: list[bytes]) -> None:
    """Write a journal anew, with these lines."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"".join(line + b"\n" for line in lines))


def refuse_other_run(path: Path, number: int, line: bytes, settings: dict[str, Any], kind: str = "attack") -> None:
    """Raise an error if an intact line belongs to another run: it holds other settings, or names the other run.

    ``kind`` is what the journal is of, for the message.
    """
    run = digest_of(settings)
    try:
        entry = json.loads(line)
        old = entry["row"].get("settings")
        other = entry["run"] if old is None else digest_of(old)
        intact = isinstance(other, str) and row_of(line, other) is not None
        names = [] if old is None else [name for name in {**old, **settings} if old.get(name) != settings.get(name)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    if not intact or other == run:
        return
    this = f"belongs to the {kind} {other[:12]}, and this is the {kind} {run[:12]}"
    if old is None:
        raise EndsRun(f"{path}:{number} {this}: delete the line, or the file if it belongs to another {kind}")
    raise EndsRun(
        f"{path} {this}, with another {' and '.join(names)}: delete the file, or give the same settings again"
    )
