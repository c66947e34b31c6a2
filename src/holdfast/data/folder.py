"""The folder of local data: ``--data``, else the variable ``HOLDFAST_DATA``, else none."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import UserError, did_you_mean
from holdfast.files import expanded

VARIABLE = "HOLDFAST_DATA"


def data_folder(data: Path | None) -> Path | None:
    """Return the folder of local data sets: ``data``, else the folder in ``HOLDFAST_DATA``, else ``None``.

    Raises:
        UserError: the named folder does not exist.
    """
    named = "--data" if data is not None else VARIABLE
    if data is None:
        value = os.environ.get(VARIABLE, "")
        if not value:
            return None
        data = Path(value)
    folder = expanded(data)
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} ({named}) is not a folder: give the folder of the data sets")
    return folder


def missing_file(path: Path, what: str, advice: str) -> UserError:
    """Return the error for a file that does not exist, with the nearest name in its folder."""
    try:
        neighbours = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return UserError(f"{what} {path} does not exist, and neither does its folder: {advice}")
    return UserError(f"{what} {path} does not exist{did_you_mean(path.name, neighbours)}: {advice}")
