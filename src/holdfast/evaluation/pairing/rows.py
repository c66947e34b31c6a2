"""Rows of differences from the items that two sides share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.comparison import RESAMPLES, Resampled, difference, resample, resample_together
from holdfast.evaluation.pairing.attacked import attacked_samples
from holdfast.evaluation.pairing.audited import audited_samples
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, Side
from holdfast.evaluation.pairing.scores import scored_samples
from holdfast.evaluation.pairing.transferred import transferred_samples
from holdfast.evaluation.samples import SeedBySeed
from holdfast.evaluation.sts import STS_TASKS
from holdfast.evaluation.transfer import TRANSFER_TASKS
from holdfast.forms import form_of

_AVERAGES = {("sts average", "spearman"): STS_TASKS, ("transfer average", "accuracy"): TRANSFER_TASKS}
_WHOLE_SPLITS = ("test", "all")
_SAMPLES = {"attack": attacked_samples, "audit": audited_samples, "transfer": transferred_samples}
"""The functions that make samples of results whose items are not in rows of scores, by kind of result."""


def compare(
    baseline: Side, other: Side, *, seed: int = 42, resamples: int = RESAMPLES
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare two sides on the same items.

    Args:
        baseline: the side that is subtracted in differences.
        other: the other side.
        seed: the seed of all draws.
        resamples: number of resamples of the bootstrap.

    Returns:
        Rows and notes. A row ``{task, split, n, metric, baseline, other, seeds, metrics, test}`` for each task that all
        results hold (and ``recipe`` for attacks, ``form`` for forms of vectors, ``seed_by_seed`` if each seed has its
        own items); ``metrics`` are the fields of `holdfast.evaluation.comparison.Difference`. The averages of the
        seven similarity and transfer tasks come last, if all seven are there, for each form. The notes are lines about
        what is left out and what the reader must know.

    Raises:
        UserError: the results have nothing in common, different items, items of different attacks, or no items.
    """
    drawn, notes = draw(baseline, other, seed=seed, resamples=resamples)
    groups = {key: [task] for key, task in drawn.items()} | dict(_averages(drawn, baseline.sources[0], seed))
    rows = []
    for key, tasks in groups.items():
        try:
            found = difference_row(tasks, baseline, other)
        except UserError as error:
            raise UserError(f"{key.task} {key.split}: {error}") from error
        recipe = {"recipe": key.recipe} if key.recipe is not None else {}
        form = {"form": key.form} if key.form is not None else {}
        rows.append({"task": key.task, "split": key.split, **recipe, **form, "metric": key.metric, **found})
    return rows, notes


def draw(
    baseline: Side, other: Side, *, seed: int = 42, resamples: int = RESAMPLES
) -> tuple[dict[RowKey, Resampled], list[str]]:
    """Return resamples of the items that all results of two sides hold, by key, and notes as in `compare`.

    Raises:
        UserError: as for `compare`.
    """
    sources = [*baseline.sources, *other.sources]
    _check_kinds(sources)
    paired = _SAMPLES.get(sources[0].result["kind"])
    samples, notes = paired(sources) if paired is not None else scored_samples(sources, len(baseline.sources))
    drawn = {
        key: resample(sample, seed=seed, name=key.seed_name, resamples=resamples) for key, sample in samples.items()
    }
    return drawn, notes


def difference_row(
    tasks: Sequence[Resampled], baseline: Side, other: Side, *, paired_seeds: bool = False
) -> dict[str, Any]:
    """Return the difference of two sides on one entry of `draw`, or on the mean of several: a row without its key.

    ``paired_seeds``: see `holdfast.evaluation.comparison.difference`.

    Raises:
        UserError: there are too few different items, so that most resamples have no score.
    """
    found = difference(tasks, len(baseline.sources), paired_seeds=paired_seeds)
    metrics = {name: value for name, value in vars(found).items() if name != "test" and value is not None}
    return {
        "n": sum(task.sample.count for task in tasks),
        "baseline": baseline.name,
        "other": other.name,
        "seeds": [len(baseline.sources), len(other.sources)],
        **({"seed_by_seed": True} if isinstance(tasks[0].sample, SeedBySeed) else {}),
        "metrics": metrics,
        "test": found.test,
    }


def drawn_together(
    keys: Sequence[RowKey], tasks: Sequence[Resampled], source: ComparedResult, *, seed: int
) -> list[Resampled]:
    """Return the tasks of a mean with items that several of them have drawn together; ``source`` is one of the results.

    Results of earlier versions do not tell these items; their tasks stay as they are.
    """
    ids = [_ids_of(key, task.sample.count, source) for key, task in zip(keys, tasks, strict=True)]
    return resample_together(tasks, ids, seed=seed, name="/".join(key.seed_name for key in keys))


def _ids_of(key: RowKey, count: int, source: ComparedResult) -> list[str | None]:
    """Return the id of each of a row's items that another row of the result has, too; None for others."""
    ids: list[str | None] = [None] * count
    for row in source.result["results"]:
        if (row["task"], row["split"], form_of(row)) == (key.task, key.split, key.form) and "repeated_pairs" in row:
            for place, each in zip(row["repeated_pairs"]["places"], row["repeated_pairs"]["ids"], strict=True):
                ids[place] = each
    return ids


def _averages(
    drawn: Mapping[RowKey, Resampled], source: ComparedResult, seed: int
) -> Iterator[tuple[RowKey, list[Resampled]]]:
    # A task that is paired seed by seed has its models in a different order.
    whole = {
        key: task
        for key, task in drawn.items()
        if key.split in _WHOLE_SPLITS and not isinstance(task.sample, SeedBySeed)
    }
    for form, (name, metric) in product(dict.fromkeys(key.form for key in whole), _AVERAGES):
        tasks = _AVERAGES[name, metric]
        found = {key.task: key for key in whole if (key.metric, key.form) == (metric, form)}
        if all(task in found for task in tasks):
            keys = [found[task] for task in tasks]
            own = drawn_together(keys, [whole[key] for key in keys], source, seed=seed)
            yield RowKey(name, "test", None, metric, form), own


def _check_kinds(sources: Sequence[ComparedResult]) -> None:
    first = sources[0]
    kind = first.result["kind"]
    for source in sources[1:]:
        other = source.result["kind"]
        if kind != other and (kind in _SAMPLES or other in _SAMPLES):
            kinds = f"{first.path} is a result of {kind}, {source.path} of {other}"
            raise UserError(f"{kinds}: an attack is compared with an attack on the same task, an audit with an audit")
