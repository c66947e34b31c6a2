"""The texts of labelled tasks without their labels, as a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.data.registry import load_graded, load_labelled
from holdfast.data.tasks import task_named
from holdfast.files import write_text

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
"""The tasks that the name ``sts`` stands for."""


def write_texts(tasks: Sequence[str], output: Path, *, data: Path | None = None) -> int:
    """Write the distinct texts of all splits of tasks to a file, one a line, and return their number.

    Args:
        tasks: tasks with scores or classes; ``sts`` stands for the seven of `STS`.
        output: the file to write.
        data: the data folder, as for `load_pairs`.

    Raises:
        UserError: a task is unknown or has no texts, or a split is missing or damaged; nothing is written.
    """
    names = [name for task in tasks for name in (STS if task == "sts" else (task,))]
    texts = dict.fromkeys(text for name in names for text in _texts_of(name, data))
    write_text(output, "".join(f"{text}\n" for text in texts))
    return len(texts)


def _texts_of(name: str, data: Path | None) -> Iterator[str]:
    """Yield the texts of a task on one line each, in the order of its splits; empty ones are left out."""
    task = task_named(name)
    for split in task.splits:
        for column in _columns_of(name, task.kind, split.name, data):
            yield from filter(None, (" ".join(text.split()) for text in column))


def _columns_of(name: str, kind: str, split: str, data: Path | None) -> list[Sequence[str]]:
    """Return the texts of a split: one column, or two of pairs."""
    if kind in ("sts", "regression"):
        return list(zip(*load_graded(name, split, data=data).texts, strict=True))
    rows = load_labelled(name, split, data=data)
    return [rows.sentences1] if rows.sentences2 is None else [rows.sentences1, rows.sentences2]
