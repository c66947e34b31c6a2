"""How long cells take, by those that are finished."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.experiments.cells import Cell, Store
from holdfast.training.watching import duration


class Durations:
    """Seconds for a unit of a cell's size: the median over the finished cells of its sort, or else of its kind.

    Args:
        records: of finished cells.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        rates: dict[tuple[str, str], list[float]] = {}
        for record in records:
            kind, settings = record["kind"], record["settings"]
            rate = record["seconds_of_last_run"] / _size(kind, settings)
            for sort in {(kind, what(kind, settings)), (kind, "")}:
                rates.setdefault(sort, []).append(rate)
        self._rates = {sort: statistics.median(found) for sort, found in rates.items()}

    def of(self, cells: Iterable[Cell]) -> float | None:
        """Seconds that cells may take, one at a time; None where none of the kind of one of them is finished."""
        seconds = 0.0
        for cell in cells:
            sort = (cell.kind, what(cell.kind, cell.settings))
            rate = self._rates.get(sort, self._rates.get((cell.kind, "")))
            if rate is None:
                return None
            seconds += rate * _size(cell.kind, cell.settings)
        return seconds


def time_left(cells: Iterable[Cell], store: Store, jobs: int = 1) -> str:
    """What stands at the end of a line about cells that are left; nothing where their time is not known.

    Args:
        cells: those that are left, those under way included.
        store: where the finished ones are.
        jobs: how many are made at once.
    """
    seconds = Durations(store.records()).of(cells)
    return f", about {duration(seconds / jobs)} left" if seconds else ""


def what(kind: str, settings: Mapping[str, Any]) -> str:
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
