"""What a reproduction would make, and how long that may take, by the cells that are finished."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.experiments.cells import Cell, Store, in_order
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
    took = _took(store.records())
    sorts: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        sorts.setdefault((cell.kind, _what(cell.kind, cell.settings)), []).append(cell)
    planned = []
    for (kind, what), alike in sorts.items():
        left = [cell for cell in alike if cell.key in to_make]
        rate = took.get((kind, what), took.get((kind, "")))
        seconds = 0.0 if not left else None if rate is None else rate * sum(_size(kind, c.settings) for c in left)
        planned.append(Planned(kind, what, len(alike), len(alike) - len(left), seconds))
    return planned


def _took(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Seconds for a unit of size, the median over the finished cells of a sort, and over those of a kind."""
    rates: dict[tuple[str, str], list[float]] = {}
    for record in records:
        kind, settings = record["kind"], record["settings"]
        rate = record["seconds_of_last_run"] / _size(kind, settings)
        for sort in {(kind, _what(kind, settings)), (kind, "")}:
            rates.setdefault(sort, []).append(rate)
    return {sort: statistics.median(found) for sort, found in rates.items()}


def _what(kind: str, settings: Mapping[str, Any]) -> str:
    """What sort of cell it is, within its kind."""
    names = {
        "encoder": ("method",),
        "baseline": ("name",),
        "classifier": ("task", "defence"),
        "attack": ("recipe", "task"),
        "evaluation": ("tasks",),
    }
    said = [settings.get(name) for name in names.get(kind, ())]
    return ", ".join(" ".join(value) if isinstance(value, list) else str(value) for value in said if value)


def _size(kind: str, settings: Mapping[str, Any]) -> float:
    """What a cell's time grows with: sentences of a training, examples of an attack; of other kinds their number."""
    if kind == "translation" and settings.get("sentences"):
        return float(settings["sentences"])
    if kind == "encoder" and settings.get("max_steps"):
        return float(settings["max_steps"] * settings["batch_size"])
    return float(settings.get("examples") or 1) if kind == "attack" else 1.0
