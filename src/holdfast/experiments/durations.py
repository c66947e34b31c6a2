"""Estimates of the time that cells take, from finished cells."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.experiments.cells import Cell, Store
from holdfast.progress import duration


class Durations:
    """Seconds per unit of a cell's size: the median over the finished cells of its sort, or else of its kind."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        rates: dict[tuple[str, str], list[float]] = {}
        for record in records:
            kind, settings = record["kind"], record["settings"]
            rate = record["seconds_of_last_run"] / _size(kind, settings)
            for sort in {(kind, sort_name(kind, settings)), (kind, "")}:
                rates.setdefault(sort, []).append(rate)
        self._rates = {sort: statistics.median(found) for sort, found in rates.items()}

    def of(self, cells: Iterable[Cell]) -> float | None:
        """Estimate the seconds that cells take, one at a time; None if some cell has no finished one of its kind."""
        seconds = 0.0
        for cell in cells:
            sort = (cell.kind, sort_name(cell.kind, cell.settings))
            rate = self._rates.get(sort, self._rates.get((cell.kind, "")))
            if rate is None:
                return None
            seconds += rate * _size(cell.kind, cell.settings)
        return seconds


def time_left(cells: Iterable[Cell], store: Store, jobs: int = 1) -> str:
    """Return the end of a progress line: the time for the remaining cells, with those in progress; "" if not known."""
    seconds = Durations(store.records()).of(cells)
    return f", about {duration(seconds / jobs)} left" if seconds else ""


def sort_name(kind: str, settings: Mapping[str, Any]) -> str:
    """Return the sort of a cell within its kind, such as the method of a training."""
    names = {
        "encoder": ("method",),
        "baseline": ("name",),
        "classifier": ("task", "defence"),
        "attack": ("recipe", "task"),
        "evaluation": ("tasks",),
    }
    values = [settings.get(name) for name in names.get(kind, ())]
    return ", ".join(" ".join(value) if isinstance(value, list) else str(value) for value in values if value)


def _size(kind: str, settings: Mapping[str, Any]) -> float:
    """Return the size that a cell's time grows with: sentences of a training, examples of an attack; else 1."""
    if kind == "translation" and settings.get("sentences"):
        return float(settings["sentences"])
    if kind == "encoder" and settings.get("max_steps"):
        return float(settings["max_steps"] * settings["batch_size"])
    return float(settings.get("examples") or 1) if kind == "attack" else 1.0
