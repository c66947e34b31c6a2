"""The values of a table: rows of the result, computed from the finished cells of all seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import UserError
from holdfast.experiments.cells import Cell, Store, in_order
from holdfast.experiments.definition import Definition, Row
from holdfast.experiments.measures import TIMES, measured, row_of
from holdfast.experiments.render import QUOTED
from holdfast.results import read_result
from holdfast.runs.run_log import RESULT_FILE


@dataclass(frozen=True)
class Entry:
    """A planned value of the table: its row, its column, and per seed its cell or the reason why there is none."""

    row: Row
    column: str
    measure: str
    digits: int
    cells: Sequence[Cell | str]


def value_row(definition: Definition, entry: Entry, store: Store, failed: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of the result: one value of the table.

    A cell that does not depend on the seed, such as an untrained encoder, is shared by all seeds and gives one value.
    ``seeds`` are those with a value, counted from 1; ``made`` are the keys of the cells behind the values, in order.
    ``trainings`` are those of the encoder behind each of these, in their order (`trainings_of`). ``failed`` holds the
    reason for each cell that could not be made, by its key.
    """
    values: list[float] = []
    made: list[str] = []
    reasons: list[str] = []
    extras: dict[str, Any] = {}
    trained: list[list[dict[str, Any]]] = []
    interval: dict[str, float] = {}
    distinct = {cell if isinstance(cell, str) else cell.key: cell for cell in entry.cells}
    for cell in distinct.values():
        reason = cell if isinstance(cell, str) else failed.get(cell.key)
        if reason is None:
            assert isinstance(cell, Cell)
            result = result_of(cell, store)
            try:
                value, trainings = measured(entry.measure, result), trainings_of(cell, store)
                values.append(value)
                made.append(cell.key)
                trained.append(trainings)
                extras = extras or _extras(definition, entry, result)
                interval = _interval(entry.measure, result)
                if entry.measure in TIMES and (jobs := store.jobs(cell)) > 1:
                    extras["timed_among"] = max(jobs, extras.get("timed_among", 1))
            except UserError as error:
                reason = str(error)
        if reason is not None:
            reasons.append(reason)
    return {
        "task": entry.row.name,
        "split": entry.column,
        "n": len(values),
        "labels": dict(entry.row.labels),
        "measure": entry.measure,
        "digits": entry.digits,
        "metrics": {**_mean_and_spread(values), **(interval if len(values) == 1 else {})},
        "values": values,
        "seeds": [n for n, cell in enumerate(entry.cells, 1) if isinstance(cell, Cell) and cell.key in made],
        "published": definition.published_value(entry.row, entry.column),
        "not_run": list(dict.fromkeys(reasons)),
        "cells": [key for key, cell in distinct.items() if isinstance(cell, Cell)],
        "made": made,
        **({"trainings": trained} if any(trained) else {}),
        **extras,
    }


def _extras(definition: Definition, entry: Entry, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result holds besides its number: texts for readers, points in a plane, the size of its sample."""
    row = row_of(entry.measure, result) or {}
    extras = {name: row[name] for name in ("told", "sample") if name in row}
    if (definition.figure or {}).get("kind") == "pairs" and "coordinates" in result:
        extras["coordinates"] = result["coordinates"]
    return extras


def _interval(measure: str, result: Mapping[str, Any]) -> dict[str, float]:
    """Return the 95 % interval of a result's number over its items, if the result has it, as attacks do."""
    metrics = (row_of(measure, result) or {"metrics": {}})["metrics"]
    metric = measure.rpartition(".")[2]
    return {end: metrics[f"{metric}_{end}"] for end in ("low", "high") if f"{metric}_{end}" in metrics}


def result_of(cell: Cell, store: Store) -> dict[str, Any]:
    """Return the result of a finished cell."""
    product = store.product(cell)
    return read_result(product / RESULT_FILE if product.is_dir() else product)


def trainings_of(cell: Cell, store: Store) -> list[dict[str, Any]]:
    """Return ``{method, steps, batch, rate, kept}`` of each training of the encoder that a cell measures, in order.

    ``batch`` counts the sentences of an optimiser's step, ``rate`` is the highest learning rate, and ``kept`` the step
    whose weights were kept. Where it was chosen on development data, ``start`` and ``score`` are the scores before the
    training and of that step. Where the method attacks, ``attack`` is the rise of the attacked loss in % of it, the
    median over the logged steps.
    """
    found = []
    for encoder in in_order([cell]):
        if encoder.kind == "encoder":
            result = result_of(encoder, store)
            training, chosen = result["protocol"]["training"], result["selected"]
            batch = training["batch_size"] * training["accumulate"]
            kept = chosen.get("step", chosen["steps"])
            scores = {name: chosen[name] for name in ("start", "score") if chosen.get(name) is not None}
            made = {"method": result["protocol"]["method"], "steps": chosen["steps"], "batch": batch}
            attack = {"attack": 100.0 * result["attack"]["loss_share"]} if "attack" in result else {}
            found.append({**made, "rate": training["learning_rate"], "kept": kept, **scores, **attack})
    return found


def average_rows(definition: Definition, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the averages over columns, one value for each seed that all of the columns have."""
    found = []
    for name in dict.fromkeys(row["task"] for row in rows):
        of_row = {row["split"]: row for row in rows if row["task"] == name}
        row = next(row for row in definition.rows if row.name == name)
        for average, columns in definition.averages.items():
            parts = [of_row[column] for column in columns]
            seeds = sorted(set.intersection(*(set(part["seeds"]) for part in parts)))
            # A value that does not depend on the seed joins every seed of the other columns; alone it gives one value.
            alone = all(len(part["values"]) < len(part["seeds"]) for part in parts)
            values = [statistics.mean(_of_seed(part, seed) for part in parts) for seed in seeds[: 1 if alone else None]]
            found.append(
                {
                    "task": name,
                    "split": average,
                    "n": len(values),
                    "labels": dict(row.labels),
                    "measure": "mean of " + ", ".join(columns),
                    "digits": max(part["digits"] for part in parts),
                    "metrics": _mean_and_spread(values),
                    "values": values,
                    "seeds": seeds,
                    "published": definition.published_value(row, average),
                    "not_run": _why_no_average(parts),
                    "cells": [],
                    "made": [],
                }
            )
    return found


def _of_seed(row: Mapping[str, Any], seed: int) -> float:
    """Return a row's value for one seed."""
    value: float = row["values"][row["seeds"].index(seed) if len(row["values"]) == len(row["seeds"]) else 0]
    return value


def _why_no_average(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why an average is incomplete: the reasons of a quoted row, or that columns or seeds are missing."""
    reasons = list(dict.fromkeys(reason for column in columns for reason in column["not_run"]))
    if reasons and all(reason.startswith(QUOTED) for reason in reasons):
        return reasons
    what = "columns" if not all(column["values"] for column in columns) else "columns' seeds"
    return [f"not all of its {what} were run"] if reasons else []


def _mean_and_spread(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    spread = {"std": statistics.stdev(values)} if len(values) > 1 else {}
    return {"mean": statistics.mean(values), **spread}
