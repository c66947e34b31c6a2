"""Checks that the splits of labelled tasks are there, before any work that needs them."""

from __future__ import annotations

from pathlib import Path

from holdfast.data import hub, hub_archive, senteval
from holdfast.data.hub_rows import hub_source
from holdfast.data.registry import beside_folder, folder_of, locate, missing_split
from holdfast.data.tasks import task_named


def check_split(
    task: str, split: str, *, data: Path | None = None, text: str = "raw", hub_answers: bool | None = None
) -> None:
    """Raise the error with which loading a split would begin, where it is missing; no row is read or downloaded.

    Args:
        task: the task's name, or a user's own file or folder.
        split: its split.
        data: the data folder, as for `load_pairs`.
        text: ``raw`` or ``senteval``, as for `load_pairs`.
        hub_answers: the result of `hub.hub_reachable`, where it is known already.

    Raises:
        UserError: a name is unknown, a file does not exist, or the hub cannot be reached or does not have the split.
    """
    known = task_named(task)
    part = known.split(split)
    if part.parts:
        for name, of in part.parts:
            check_split(name, of, data=data, text=text, hub_answers=hub_answers)
    elif part.own is None:
        folder = folder_of(known, data)
        if folder is not None:
            if locate(part, folder, text) is None:
                raise missing_split(known, part, folder, text, senteval.find_root(folder))
            return
        with beside_folder(known, part, data, text):
            source = hub_source(known, part, text)
            if source.archive is not None:
                hub_archive.check_archive(source, reachable=hub_answers)
            else:
                hub.check(source, reachable=hub_answers)
