"""Splits of a task for each purpose: to train on, to select by, to measure on."""

from __future__ import annotations

from pathlib import Path

from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.registry import is_local
from holdfast.data.tasks import Split, Task, hub_sources, sources
from holdfast.errors import UserError

_DEV_SPLITS = ("dev", "dev_matched", "dev_10k", "dev_all", "trial")


def short_name(task: Task) -> str:
    """What a task is called; of a user's own, the name of the file or folder."""
    return Path(task.name).name if task.is_own else task.name


def train_split_of(task: Task, given: str | None, data: Path | None) -> str:
    """The split to train on: the one that is given, or ``train``, or ``all`` where that is the only one.

    Raises:
        UserError: it is a test split, or has to be named.
    """
    if given is not None:
        if _is_test(task.split(given)):
            raise UserError(f"--train-split {given}: a test split is never trained on")
        return given
    names = [split.name for split in task.splits if not _is_test(split)]
    if not names:
        raise UserError(f"{task.name} has no split to train on, only what is there to be measured on")
    if "train" not in names and names[0] == "all":
        return "all"
    if at_hand(task, "train", data):
        return "train"
    others = [name for name in names if name != "train" and at_hand(task, name, data)]
    where = data_folder(data)
    if not others:
        return names[0]  # whatever is missing is told by the reader
    hub = where is not None and "train" in names and hub_sources(task.split("train"))
    raise UserError(
        f"{task.name} has no train split in {where or 'the hub'}: name the split to train on, "
        f"{' or '.join(f'--train-split {name}' for name in others)}"
        + (f" (or leave out --data and {VARIABLE} to take the hub's train split)" if hub else "")
    )


def _is_test(split: Split) -> bool:
    """Whether a split, or a file that it is read from, is there to be measured on."""
    return split.name.startswith("test") or any(name.rpartition("/")[2].startswith("test") for name in split.files)


def dev_split(task: Task, train: str, data: Path | None) -> str | None:
    """The split that selects: the first that is at hand and shares no rows with the training split."""
    known = {split.name: split for split in task.splits}
    return next((n for n in _DEV_SPLITS if n in known and _apart(task, train, n) and at_hand(task, n, data)), None)


def measured_splits(task: Task, train: str, dev: str | None, data: Path | None) -> list[str]:
    """The splits that are measured besides the selecting one, as far as they are at hand and not trained on."""
    names = task.measured or tuple(split.name for split in task.splits if split.name.startswith("test"))
    return [n for n in names if n != dev and _apart(task, train, n) and at_hand(task, n, data)]


def _apart(task: Task, one: str, other: str) -> bool:
    return sources(task.split(one)).isdisjoint(sources(task.split(other)))


def at_hand(task: Task, split: str, data: Path | None) -> bool:
    """Whether a split can be had: from the data folder where there is one, else from the hub."""
    part = next((part for part in task.splits if part.name == split), None)
    if part is None:
        return False
    return is_local(task.name, split, data) or (data_folder(data) is None and bool(hub_sources(part)))
