"""Names of cells by the rows of a table that need them: two ablations of one method are told apart in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.experiments.cells import Cell
from holdfast.experiments.table_rows import Entry


def named_by_rows(entries: Sequence[Entry]) -> list[Entry]:
    """Return the planned values with cells whose labels begin with the names of their rows.

    A label is no part of a cell's key. A cell that more than two rows need has the name of the first and their number.
    """
    rows: dict[str, dict[str, None]] = {}
    for entry in entries:
        for cell in _planned(entry):
            for needed in cell.needed():
                rows.setdefault(needed.key, {})[entry.row.name] = None
    made: dict[str, Cell] = {}

    def named(cell: Cell) -> Cell:
        if cell.kind == "model":
            return cell
        if cell.key not in made:
            inputs = {name: named(taken) for name, taken in cell.inputs.items()}
            made[cell.key] = replace(cell, inputs=inputs, label=f"{_some(list(rows[cell.key]))}: {cell.label}")
        return made[cell.key]

    def of_entry(entry: Entry) -> Entry:
        return replace(entry, cells=[named(each) if isinstance(each, Cell) else each for each in entry.cells])

    return [of_entry(entry) for entry in entries]


def _planned(entry: Entry) -> list[Cell]:
    return [cell for cell in entry.cells if isinstance(cell, Cell)]


def _some(names: Sequence[str]) -> str:
    return "; ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more rows"
