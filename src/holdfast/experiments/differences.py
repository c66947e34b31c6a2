"""Paired differences between rows or columns of a table, from the results behind its values (`evaluation.pairing`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.comparison import RESAMPLES, Resampled, interval_shown, resample
from holdfast.evaluation.multiple_comparisons import holm
from holdfast.evaluation.pairing.attacked import attacked_by_all
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, Side
from holdfast.evaluation.pairing.rows import difference_row, draw, drawn_together
from holdfast.evaluation.samples import SeedBySeed
from holdfast.experiments.baseline_values import ValuePlace
from holdfast.experiments.measures import rows_behind

_ITEMS = {"accuracy": "correct", "spearman": "gold"}
"""For each metric that is computed from items, the field of a row's ``items`` that it needs."""
_OF_ATTACKS = ("success_rate", "queries")
"""The metrics of an attack that are paired, from its examples."""

Values = Sequence[Mapping[str, Any]]
"""Rows of a reproduction's result, one for each value of the table."""


@dataclass(frozen=True)
class _Compared:
    """The tasks behind two values of a table, resampled on the same items: one, or those of a mean."""

    keys: Sequence[RowKey]
    tasks: Sequence[Resampled]
    baseline: Side
    other: Side
    paired_seeds: bool


def differences(
    values: Values,
    averages: Mapping[str, Sequence[str]],
    partners: Mapping[ValuePlace, ValuePlace],
    result_of: Callable[[str], dict[str, Any]],
    *,
    seed: int = 42,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Compute the paired differences of a table's values from their baselines.

    A value is compared if its measure is computed from items: the success or the queries of an attack, an accuracy, a
    correlation, or a mean of several of these, on different items or of attacks on the same texts.

    Args:
        values: the values of the table.
        averages: for each average column, the columns it averages.
        partners: the place of the baseline of each compared value.
        result_of: returns the result of a cell, given its key.
        seed: of all random draws.
        resamples: of the bootstrap.

    Returns:
        ``{results, notes, seed, resamples, interval}``: ``results`` holds rows ``{task, split, labels, digits, metric,
        n, baseline, other, seeds, paired_seeds, metrics: {baseline, other, difference, low, high, error, detectable, p,
        p_holm}, test}``. ``task`` and ``split`` are those of the value, ``n`` counts the items that both values have;
        ``p_holm`` is corrected for all comparisons of the table; ``notes`` says what to know for reading and what was
        not compared. Values are compared on the seeds that both have, if these are two or more, and the seeds are
        then paired: equal seeds draw equal data in equal order.
    """
    pairs = _PairedValues(values, averages, result_of, seed, resamples)
    found = []
    for value in values:
        partner = pairs.places.get(partners.get((value["task"], value["split"]), ("", "")))
        if partner is None:
            continue
        try:
            compared = pairs.compared(partner, value)
            if compared is None:
                continue
            paired = compared.paired_seeds
            difference = difference_row(compared.tasks, compared.baseline, compared.other, paired_seeds=paired)
        except UserError as error:
            pairs.note(f"not compared: {error}", value)
            continue
        names = {name: value[name] for name in ("task", "split", "labels", "digits")}
        found.append({**names, "metric": compared.keys[0].metric, **difference, "paired_seeds": paired})
    for row, p in zip(found, holm([row["metrics"]["p"] for row in found]), strict=True):
        row["metrics"]["p_holm"] = p
    notes = [f"{line} ({'; '.join(places)})" for line, places in pairs.notes.items()]
    return {"results": found, "notes": notes, "seed": seed, "resamples": resamples, "interval": interval_shown()}


class _PairedValues:
    """Pairs of values of a table; the resamples of the same cells are drawn once."""

    def __init__(
        self,
        values: Values,
        averages: Mapping[str, Sequence[str]],
        result_of: Callable[[str], dict[str, Any]],
        seed: int,
        resamples: int,
    ) -> None:
        self.places = {(value["task"], value["split"]): value for value in values}
        self.notes: dict[str, list[str]] = {}
        self._averages, self._result_of = averages, result_of
        self._seed, self._resamples = seed, resamples
        self._drawn: dict[tuple[tuple[str, ...], ...], dict[RowKey, Resampled]] = {}

    def note(self, line: str, value: Mapping[str, Any]) -> None:
        """Add a note about a value."""
        self.notes.setdefault(line, []).append(f"{value['task']}: {value['split']}")

    def compared(self, baseline: Mapping[str, Any], other: Mapping[str, Any]) -> _Compared | None:
        """Pair two values over the seeds that each has; None without seeds or items, or if both are of the same cells.

        Raises:
            UserError: the items of the two cannot be paired.
        """
        if not baseline["n"] or not other["n"]:
            return None
        if {baseline["split"], other["split"]} & self._averages.keys():
            if baseline["split"] != other["split"]:
                return None
            return self._mean(baseline["task"], other["task"], self._averages[other["split"]])
        baseline, other = _of_shared_seeds(baseline, other)
        if set(baseline["made"]) == set(other["made"]):
            return None
        differs = "split" if baseline["task"] == other["task"] else "task"
        first, second = (self._side(value, value[differs]) for value in (baseline, other))
        keys = _keys(other["measure"], second.sources[0].result)
        if not keys or _keys(baseline["measure"], first.sources[0].result) != keys:
            return None
        drawn = self._draw(first, second, (baseline, other))
        if any(key not in drawn for key in keys):
            return None  # a note says why
        counts = {len(first.sources), len(second.sources)}
        paired = counts == {len(other["seeds"])} != {1} and baseline["seeds"] == other["seeds"]
        tasks = drawn_together(keys, [drawn[key] for key in keys], first.sources[0], seed=self._seed)
        return _Compared(keys, tasks, first, second, paired)

    def _mean(self, baseline: str, other: str, columns: Sequence[str]) -> _Compared | None:
        """Pair two means over columns of the same models: of different items, or of attacks on the same texts."""
        found = [self.compared(self.places[baseline, column], self.places[other, column]) for column in columns]
        parts = [part for part in found if part is not None]
        tasks = [task for part in parts for task in part.tasks]
        seeds = [tuple(tuple(self.places[row, column]["seeds"]) for row in (baseline, other)) for column in columns]
        seed_counts = {tuple(len(side.sources) for side in (part.baseline, part.other)) for part in parts}
        single = len(parts) == len(columns) and all(len(part.keys) == 1 for part in parts)
        by_seed = any(isinstance(task.sample, SeedBySeed) for task in tasks)  # its models have another order
        if not single or by_seed or len(seed_counts) > 1 or len(set(seeds)) > 1:
            return None
        splits: dict[tuple[str, str], list[_Compared]] = {}
        for part in parts:
            splits.setdefault((part.keys[0].task, part.keys[0].split), []).append(part)
        if len({len(of_split) for of_split in splits.values()}) > 1:
            return None  # a mean over splits would not be the mean over columns
        drawn = [self._of_one_split(of_split) for of_split in splits.values()]
        of_splits = [task for task in drawn if task is not None]
        if len(of_splits) < len(splits):
            return None
        one = parts[0]  # all have the same seeds
        keys = [part.keys[0] for part in parts]
        if len(of_splits) == len(parts):
            of_splits = drawn_together(keys, of_splits, one.baseline.sources[0], seed=self._seed)
        return _Compared(keys, of_splits, one.baseline, one.other, one.paired_seeds)

    def _of_one_split(self, parts: Sequence[_Compared]) -> Resampled | None:
        """Average the values of one split: a text is drawn together with all attacks on it.

        If the attacks were drawn separately, as if on different texts, the interval of the mean would be too narrow.
        """
        if len(parts) == 1:
            return parts[0].tasks[0]
        keys = [part.keys[0] for part in parts]
        if {key.metric for key in keys} != {"success_rate"}:
            return None
        sides = [[*part.baseline.sources, *part.other.sources] for part in parts]
        sample = attacked_by_all(list(zip(*sides, strict=True)), keys)
        if sample is None:
            return None
        return resample(sample, seed=self._seed, name="/".join(map(str, keys)), resamples=self._resamples)

    def _side(self, value: Mapping[str, Any], name: str) -> Side:
        """Return the results behind a value under a name, each named after its place in the table."""
        keys, place = value["made"], f"{value['task']}, {value['split']}"
        names = [place + (f", seed {number}" if len(keys) > 1 else "") for number in value["seeds"][: len(keys)]]
        sources = (ComparedResult(Path(name), self._result_of(key)) for name, key in zip(names, keys, strict=True))
        return Side(name, tuple(sources))

    def _draw(self, baseline: Side, other: Side, values: Values) -> dict[RowKey, Resampled]:
        """Draw the resamples of the tasks that two sides share, once for the same cells."""
        cells = tuple(tuple(value["made"]) for value in values)
        if cells not in self._drawn:
            drawn, notes = draw(baseline, other, seed=self._seed, resamples=self._resamples)
            for line in notes:
                self.note(line, values[1])
            self._drawn[cells] = drawn
        return self._drawn[cells]


def _of_shared_seeds(first: Mapping[str, Any], second: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return two values with the seeds that both have alone, if these are two or more; else unchanged.

    What both owe to a seed is then no part of their difference, which it is where one of them has more seeds.
    """
    shared = [seed for seed in first["seeds"] if seed in second["seeds"]]
    if len(shared) < 2:
        return first, second
    return [{**value, "seeds": shared, "made": _made_with(shared, value)} for value in (first, second)]


def _made_with(seeds: Sequence[int], value: Mapping[str, Any]) -> list[str]:
    """Return the cells of a value that were made with some seeds: all of them if they do not depend on the seed."""
    made: list[str] = value["made"]
    if len(made) != len(value["seeds"]):
        return made
    return [key for key, seed in zip(made, value["seeds"], strict=True) if seed in seeds]


def _keys(measure: str, result: Mapping[str, Any]) -> list[RowKey]:
    """Return the pairing keys of a measure; none if it is not computed from items."""
    rows, metric = rows_behind(measure, result)
    if result["kind"] == "attack":
        return [RowKey(r["task"], r["split"], str(r.get("recipe")), metric) for r in rows if metric in _OF_ATTACKS]
    if metric not in _ITEMS or not all(_ITEMS[metric] in row.get("items", ()) for row in rows):
        return []
    return [RowKey(row["task"], row["split"], None, metric) for row in rows]
