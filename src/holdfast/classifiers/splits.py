"""Splits of a task for each purpose: training, selection, measurement."""

from __future__ import annotations

from pathlib import Path

from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.registry import folder_of, is_local
from holdfast.data.tasks import Split, Task, hub_sources, sources
from holdfast.errors import UserError

_DEV_SPLITS = ("dev", "dev_matched", "dev_10k", "dev_all", "trial")


def short_name(task: Task) -> str:
    """Return the name of a task; for a user's own task, the name of the file or folder."""
    return Path(task.name).name if task.is_own else task.name


def train_split_of(task: Task, given: str | None, data: Path | None) -> str:
    """Return the split to train on: the given one, or ``train``, or ``all`` if that is the only one.

    Raises:
        UserError: it is a test split, or it must be named.
    """
    if given is not None:
        if _is_test(task.split(given)):
            raise UserError(f"--train-split {given}: a test split is never trained on")
        return given
    names = [split.name for split in task.splits if not _is_test(split)]
    if not names:
        raise UserError(f"{task.name} has no training split, only splits for measurement")
    if "train" not in names and names[0] == "all":
        return "all"
    if is_available(task, "train", data):
        return "train"
    others = [name for name in names if name != "train" and is_available(task, name, data)]
    where = data_folder(data)
    if not others:
        return names[0]  # the reader reports what is missing
    hub = where is not None and "train" in names and hub_sources(task.split("train"))
    raise UserError(
        f"{task.name} has no train split in {where or 'the hub'}: name the split to train on, "
        f"{' or '.join(f'--train-split {name}' for name in others)}"
        + (f" (or leave out --data and {VARIABLE} to take the hub's train split)" if hub else "")
    )


def _is_test(split: Split) -> bool:
    """Return True if a split, or one of its files, is a test split."""
    return split.name.startswith("test") or any(name.rpartition("/")[2].startswith("test") for name in split.files)


def dev_split(task: Task, train: str, data: Path | None) -> str | None:
    """Return the split for selection: the first available one that shares no rows with the training split."""
    known = {split.name: split for split in task.splits}
    names = (name for name in _DEV_SPLITS if name in known and _share_no_rows(task, train, name))
    return next((name for name in names if is_available(task, name, data)), None)


def measured_splits(task: Task, train: str, dev: str | None, data: Path | None) -> list[str]:
    """Return the available splits for measurement, except the selection split and those that share training rows."""
    names = task.measured or tuple(split.name for split in task.splits if split.name.startswith("test"))
    return [n for n in names if n != dev and _share_no_rows(task, train, n) and is_available(task, n, data)]


def needed_splits(task: Task, given: str | None, data: Path | None) -> list[str]:
    """Return the splits that a training reads: for training, for selection if there is one, and for measurement.

    Args:
        task: the task.
        given: the split to train on; None: as in `train_split_of`.
        data: the data folder.

    Raises:
        UserError: as `train_split_of`.
    """
    train = train_split_of(task, given, data)
    dev = dev_split(task, train, data)
    return [train, *([dev] if dev is not None else []), *measured_splits(task, train, dev, data)]


def _share_no_rows(task: Task, one: str, other: str) -> bool:
    return sources(task.split(one)).isdisjoint(sources(task.split(other)))


def is_available(task: Task, split: str, data: Path | None) -> bool:
    """Return True if a split is available: in the data folder, or on the hub for a task that comes from there."""
    part = next((part for part in task.splits if part.name == split), None)
    if part is None:
        return False
    return is_local(task.name, split, data) or (folder_of(task, data) is None and bool(hub_sources(part)))
