"""Estimates of the time that cells take, from finished cells."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.experiments.cells import Cell, Store
from holdfast.progress import duration


class Durations:
    """Seconds per unit of a cell's size: the median over the finished cells of its sort, or else of its kind.

    Cells whose sizes have other units tell nothing of each other: one pass over a corpus is not so many sentences.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        rates: dict[tuple[str, str, str], list[float]] = {}
        for record in records:
            kind, settings = record["kind"], record["settings"]
            size, unit = _size(kind, settings)
            for sort in {sort_name(kind, settings), ""}:
                seconds = max(record["seconds_of_last_run"], record.get("seconds", 0.0))  # old records have the first
                rates.setdefault((kind, sort, unit), []).append(seconds / size)
        self._rates = {sort: statistics.median(found) for sort, found in rates.items()}

    def of(self, cells: Iterable[Cell]) -> float | None:
        """Estimate the seconds that cells take, one at a time; None if some cell has no finished one like it."""
        seconds = 0.0
        for cell in cells:
            size, unit = _size(cell.kind, cell.settings)
            sort = (cell.kind, sort_name(cell.kind, cell.settings), unit)
            rate = self._rates.get(sort, self._rates.get((cell.kind, "", unit)))
            if rate is None:
                return None
            seconds += rate * size
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


def _size(kind: str, settings: Mapping[str, Any]) -> tuple[float, str]:
    """Return the size that a cell's time grows with, and its unit."""
    if kind == "translation" and settings.get("sentences"):
        return float(settings["sentences"]), "sentences"
    if kind == "encoder":
        if settings.get("max_steps"):
            batch = settings["batch_size"] * (settings.get("accumulate") or 1)
            return float(settings["max_steps"] * batch), "sentences"
        return float(settings.get("epochs") or 1), f"passes over {settings.get('corpus')}"
    if kind == "classifier":
        passes, texts = float(settings.get("epochs") or 1), settings.get("examples")
        return (passes * texts, "texts") if texts else (passes, f"passes over {settings.get('task')}")
    if kind == "attack":
        texts = settings.get("examples")
        return (float(texts), "texts") if texts else (1.0, f"all of {settings.get('task')}")
    return 1.0, f"at most {settings['limit']} rows" if settings.get("limit") else "whole"
