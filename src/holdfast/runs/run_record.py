"""The record of a run, ``run.json``: reading, comparison, and its digest, which identifies the run.

All files that a run writes for itself hold the digest: checkpoints, best weights, log, result. Files copied from
another run's folder can thus be detected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import EndsRun, UserError
from holdfast.runs.run_log import BEGUN, METRICS_FILE, RUN_FILE, damaged_lines, read_log

RUN = "run"
"""Key of the run's digest in the files of a run."""

# Versions, and locations of model and corpus; their hashes are compared instead.
_MAY_DIFFER = {"versions", "base_model", "source"}
_NAME_DIGITS = 12


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of a run.

    Raises:
        UserError: the file is damaged; the message names the line.
    """
    message = "is damaged: the run cannot be identified"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno} {message}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}:1 {message}") from error
    if not isinstance(record, dict):
        raise UserError(f"{path}:1 {message}")
    return record


def differences(
    before: dict[str, Any], now: dict[str, Any], within: str = "", *, partial: bool = False
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each setting that differs; with ``partial`` only of those in ``now``."""
    may_differ = set() if within.endswith("options ") else _MAY_DIFFER  # a method has an option `source`
    for name in sorted((now.keys() if partial else {*before, *now}) - may_differ):
        was, given = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(given, dict):
            yield from differences(was, given, f"{within}{name} ", partial=partial)
        elif _without_places(was) != _without_places(given):
            yield f"{within}{name}", was, given


def _without_places(value: Any) -> Any:
    """Return a list of records without what may differ in each; other values as they are."""
    if not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
        return value
    return [{name: entry for name, entry in each.items() if name not in _MAY_DIFFER} for each in value]


def digest_of(record: dict[str, Any]) -> str:
    """Return the SHA-256 of the compared part of a record; equal for records without `differences`.

    Moving the base model or the corpus, or other installed versions, do not change the digest.
    """
    compared = _compared(json.loads(json.dumps(record)))
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()


def digest_in(folder: Path) -> str | None:
    """Return the digest of the run in a folder; None if there is no record.

    Raises:
        UserError: the record is damaged.
    """
    path = folder / RUN_FILE
    return digest_of(read_record(path)) if path.exists() else None


def refuse_foreign(path: Path, named: Any, run: str | None) -> None:
    """Refuse a file that names another run (``named``) than that of its folder (``run``); None: unknown.

    Raises:
        UserError: the runs differ; the message names both.
    """
    if named is not None and run is not None and named != run:
        raise EndsRun(
            f"{path} is of run {shown(named)}, and this is run {shown(run)}: move it out of the folder, and restore "
            "this run's own file if it was replaced"
        )


def refuse_log_of_another(path: Path, run: str | None) -> None:
    """Refuse a log of which any part was written by another run than ``run``.

    Raises:
        UserError: another run wrote to it; the message names both runs.
    """
    for record in read_log(path):
        if record.get("state") == BEGUN:
            refuse_foreign(path, record.get(RUN), run)


def shown(run: Any) -> str:
    """Return the first digits of a digest, for display."""
    return str(run)[:_NAME_DIGITS]


def damage_in(folder: Path) -> list[str]:
    """Return a message if a run's record is damaged, and one if its log is; both name the line."""
    lines = []
    if (folder / RUN_FILE).exists():
        try:
            read_record(folder / RUN_FILE)
        except UserError as error:
            lines.append(str(error))
    if numbers := damaged_lines(folder / METRICS_FILE):
        more = f" (and {len(numbers) - 1} more line{'s' * (len(numbers) > 2)})" if len(numbers) > 1 else ""
        lines.append(f"{folder / METRICS_FILE}:{numbers[0]}{more} is damaged: it is left out")
    return lines


def _compared(record: dict[str, Any]) -> dict[str, Any]:
    """Return the compared part of a record; None counts as absent."""
    return {
        name: _compared(value) if isinstance(value, dict) else _without_places(value)
        for name, value in record.items()
        if name not in _MAY_DIFFER and value is not None
    }
