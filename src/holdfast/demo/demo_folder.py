"""A demo's folder: its creation, its reuse by a resumed demo, and checks against other content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.files import write_json, write_text
from holdfast.runs.run_folder import LOCK_FILE

RECORD_FILE, RESULT_FILE, REPORT_FILE = "demo-run.json", "demo.json", "report.html"
_AGAIN = "to run it again, remove the folder or name another one with --output"


def refuse_finished(folder: Path) -> None:
    """Refuse a folder that is a file, or that holds a finished demo; this needs no text.

    Raises:
        UserError: the folder is a file or holds a finished demo.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; the demo needs a folder: holdfast demo --output DIR")
    report = folder / REPORT_FILE
    if report.exists():
        raise UserError(f"the demo in {folder} is finished (report: {report}): {_AGAIN}")


def prepare(folder: Path, settings: Mapping[str, Any], model_sha256: str, files: Mapping[str, str]) -> None:
    """Write the texts into the demo's folder, unless it holds files that do not belong to this demo.

    Args:
        folder: the folder of the demo.
        settings: the settings that must be the same for a resumed demo, by name.
        model_sha256: the hash of the model, which must be the same, too.
        files: the content of each file of texts by its name; their hashes must be the same.

    Raises:
        UserError: the folder holds other files, or a demo with other settings.
    """
    texts = {name.partition(".")[0]: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    record = {**settings, "model": model_sha256, **texts}
    if folder.is_dir() and {path.name for path in folder.iterdir()} - {LOCK_FILE}:
        for name, before, now in _differences(folder, record):
            raise UserError(f"{folder} has a demo with {name} {before}, and {name} is now {now}: {_AGAIN}")
    write_json(folder / RECORD_FILE, record)  # written first: it marks the folder as this demo's
    for name, text in files.items():
        write_text(folder / name, text)


def lines_of(texts: list[str]) -> str:
    """Return the content of a file with a text in each line."""
    return "".join(f"{text}\n" for text in texts)


def _differences(folder: Path, record: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    try:
        before = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{folder} holds other files: name an empty folder with --output") from error
    if not isinstance(before, dict):
        raise UserError(f"{folder / RECORD_FILE} is damaged: choose another folder with --output")
    return [(name, before.get(name), value) for name, value in record.items() if before.get(name) != value]
