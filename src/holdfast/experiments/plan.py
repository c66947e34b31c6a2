"""What a reproduction would make, and how long that may take, by the cells that are finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.experiments.cells import Cell, Store, in_order
from holdfast.experiments.durations import Durations, what
from holdfast.experiments.run import ReproduceSettings, cells_of


@dataclass(frozen=True)
class Planned:
    """Cells of one sort.

    Attributes:
        kind: as :class:`~holdfast.experiments.cells.Cell` has it.
        what: which method, task or attack.
        cells: how many are needed.
        finished: how many of these are there.
        seconds: that the others may take, by the finished ones of the same sort, or else kind; 0 where none is left,
            None where no such cell is finished.
    """

    kind: str
    what: str
    cells: int
    finished: int
    seconds: float | None


def plan(tables: Sequence[ReproduceSettings]) -> list[Planned]:
    """What several tables with one output need together, sort by sort, inputs first. Nothing is made.

    Raises:
        UserError: as `reproduce`, before it begins.
    """
    store = Store(tables[0].output / "cells")
    cells = [cell for cell in in_order(cell for each in tables for cell in cells_of(each)) if cell.kind != "model"]
    to_make = store.left(cells)
    durations = Durations(store.records())
    sorts: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        sorts.setdefault((cell.kind, what(cell.kind, cell.settings)), []).append(cell)
    planned = []
    for (kind, sort), alike in sorts.items():
        left = [cell for cell in alike if cell.key in to_make]
        planned.append(Planned(kind, sort, len(alike), len(alike) - len(left), durations.of(left)))
    return planned
