"""Where local data lies: ``--data``, else the variable ``HOLDFAST_DATA``, else nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import UserError, did_you_mean
from holdfast.values import expanded

VARIABLE = "HOLDFAST_DATA"


def data_folder(data: Path | None) -> Path | None:
    """The folder of local data sets: ``data``, else the one ``HOLDFAST_DATA`` names, else ``None``.

    Raises:
        UserError: a folder was named and is not there.
    """
    named = "--data" if data is not None else VARIABLE
    if data is None:
        value = os.environ.get(VARIABLE, "")
        if not value:
            return None
        data = Path(value)
    folder = expanded(data)
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} ({named}) is not a folder: give the folder of <dataset>/<split>.tsv")
    return folder


def missing_file(path: Path, what: str, advice: str) -> UserError:
    """The line for a file that is not there, with the nearest name in its folder."""
    try:
        neighbours = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return UserError(f"{what} {path} does not exist, and neither does its folder: {advice}")
    return UserError(f"{what} {path} does not exist{did_you_mean(path.name, neighbours)}: {advice}")
