"""The plan of a reproduction: the cells to make, and the estimated time, from the finished cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.experiments.cells import Cell, Store, in_order
from holdfast.experiments.durations import Durations, sort_name
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import cells_of


@dataclass(frozen=True)
class Planned:
    """Cells of one sort.

    Attributes:
        kind: as :class:`~holdfast.experiments.cells.Cell` has it.
        what: the method, task or attack.
        cells: number of cells needed.
        finished: number of these that are finished.
        seconds: estimated time of the others, from finished cells of the same sort, or else kind; 0 if none is left,
            None if no such cell is finished.
    """

    kind: str
    what: str
    cells: int
    finished: int
    seconds: float | None


def plan(tables: Sequence[ReproduceSettings]) -> list[Planned]:
    """Plan the cells that several tables with one output need together, by sort, inputs first. Nothing is made.

    Raises:
        UserError: as `reproduce`, before it begins.
    """
    store = Store(tables[0].output / "cells")
    cells = [cell for cell in in_order(cell for each in tables for cell in cells_of(each)) if cell.kind != "model"]
    to_make = store.left(cells)
    durations = Durations(store.records())
    sorts: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        sorts.setdefault((cell.kind, sort_name(cell.kind, cell.settings)), []).append(cell)
    planned = []
    for (kind, sort), members in sorts.items():
        left = [cell for cell in members if cell.key in to_make]
        planned.append(Planned(kind, sort, len(members), len(members) - len(left), durations.of(left)))
    return planned
