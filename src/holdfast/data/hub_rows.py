"""Rows of a labelled task's split from the Hugging Face hub: of a data set, or of an archive of SentEval's folder."""

from __future__ import annotations

from holdfast.data import hub, hub_archive, senteval
from holdfast.data.folder import VARIABLE
from holdfast.data.hub import HubSource
from holdfast.data.senteval import Row
from holdfast.data.tables import choose_column
from holdfast.data.tasks import Split, Task
from holdfast.errors import UserError


def hub_source(task: Task, split: Split, text: str) -> HubSource:
    """Return the source of a split on the hub.

    Raises:
        UserError: it has none, or none with the text as SentEval tokenises it.
    """
    if split.hub is None or (text == "senteval" and split.hub.archive is None):
        description = f"{task.name} {split.name}" + (" as SentEval tokenises it" if text == "senteval" else "")
        raise UserError(f"{description} is not on the hub in a form that can be loaded: give --data or set {VARIABLE}")
    return split.hub


def rows_from_hub(task: Task, split: Split, text: str) -> tuple[list[Row], str]:
    """Return the rows of a split on the hub, and the name of their source.

    Raises:
        UserError: the hub has no such split, cannot be reached, or has a row without a text or label.
    """
    source = hub_source(task, split, text)
    if source.archive is not None:
        return _from_archive(task, split, source)
    table = hub.load(source)
    names = split.hub_columns or (*task.columns, task.label or "")
    chosen = [choose_column(table.column_names, name, str(source)) for name in names]
    rows = []
    for number, values in enumerate(zip(*(table[name] for name in chosen), strict=True), start=1):
        where = f"{source}: row {number}"
        if any(not isinstance(value, str) for value in values[:-1]) or values[-1] is None:
            raise UserError(f"{where}: a text or label is missing: give --data instead")
        rows.append((where, [value.strip() for value in values[:-1]], str(values[-1]), ""))
    return rows, str(source)


def _from_archive(task: Task, split: Split, source: HubSource) -> tuple[list[Row], str]:
    """Read a split from an archive of SentEval's folder, whose rows must be as many as the task's."""
    root = hub_archive.senteval_root(source)
    missing = [name for name in split.files if not senteval.has(root, name)]
    if missing:
        raise UserError(f"{source} has no {missing[0]} (unpacked to {root}): give --data instead")
    rows = [row for name in split.files for row in senteval.read(root, name)]
    if split.rows not in (None, len(rows)):
        raise UserError(f"{source} has {len(rows):,} rows of {task.name} {split.name}, not {split.rows:,}: give --data")
    return rows, str(source)
