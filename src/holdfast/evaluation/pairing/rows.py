"""From the items that two sides share to rows of differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.comparison import RESAMPLES, Resampled, SeedBySeed, difference, resample
from holdfast.evaluation.pairing.attacked import attacked_samples
from holdfast.evaluation.pairing.audited import audited_samples
from holdfast.evaluation.pairing.scores import scored_samples
from holdfast.evaluation.pairing.sides import Key, Side, Source
from holdfast.evaluation.pairing.transferred import transferred_samples
from holdfast.evaluation.sts import STS_TASKS
from holdfast.evaluation.transfer import TRANSFER_TASKS

_AVERAGES = {("sts average", "spearman"): STS_TASKS, ("transfer average", "accuracy"): TRANSFER_TASKS}
_WHOLE_SPLITS = ("test", "all")
_SAMPLES = {"attack": attacked_samples, "audit": audited_samples, "transfer": transferred_samples}
"""What makes samples of results whose items are not in rows of scores, by the kind of result."""


def compare(
    baseline: Side, other: Side, *, seed: int = 42, resamples: int = RESAMPLES
) -> tuple[list[dict[str, Any]], list[str]]:
    """What two sides made of the same items.

    Args:
        baseline: the side that differences are from.
        other: the other side.
        seed: of all draws.
        resamples: of the bootstrap.

    Returns:
        A row ``{task, split, n, metric, baseline, other, seeds, metrics, test}`` per task that all results hold (and
        ``recipe`` for attacks, ``seed_by_seed`` where each seed has items of its own), with ``metrics`` as
        `holdfast.evaluation.comparison.Difference` has them; the averages of the seven similarity and transfer tasks
        last, where all are there. And what is left out, or has to be known, a line each.

    Raises:
        UserError: nothing in common, other items, items of another attack, or results without items.
    """
    drawn, notes = draw(baseline, other, seed=seed, resamples=resamples)
    groups = {key: [task] for key, task in drawn.items()} | dict(_averages(drawn))
    rows = []
    for key, tasks in groups.items():
        try:
            found = differing(tasks, baseline, other, seed=seed)
        except UserError as error:
            raise UserError(f"{key.task} {key.split}: {error}") from error
        recipe = {"recipe": key.recipe} if key.recipe is not None else {}
        rows.append({"task": key.task, "split": key.split, **recipe, "metric": key.metric, **found})
    return rows, notes


def draw(
    baseline: Side, other: Side, *, seed: int = 42, resamples: int = RESAMPLES
) -> tuple[dict[Key, Resampled], list[str]]:
    """The items that all results of two sides hold, drawn, by what was measured on them; and notes as of `compare`.

    Raises:
        UserError: as `compare`.
    """
    sources = [*baseline.sources, *other.sources]
    _check_kinds(sources)
    paired = _SAMPLES.get(sources[0].result["kind"])
    samples, notes = paired(sources) if paired is not None else scored_samples(sources, len(baseline.sources))
    drawn = {
        key: resample(sample, seed=seed, name="/".join(map(str, key)), resamples=resamples)
        for key, sample in samples.items()
    }
    return drawn, notes


def differing(tasks: Sequence[Resampled], baseline: Side, other: Side, *, seed: int = 42) -> dict[str, Any]:
    """How two sides differ on one thing that `draw` gives, or on the mean of several: a row of `compare`, unnamed.

    Raises:
        UserError: too few items for their resamples to have scores.
    """
    found = difference(tasks, len(baseline.sources), seed=seed)
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


def _averages(drawn: Mapping[Key, Resampled]) -> Iterator[tuple[Key, list[Resampled]]]:
    # The models of a task that is paired seed by seed have an order of their own.
    whole = {
        key: task
        for key, task in drawn.items()
        if key.split in _WHOLE_SPLITS and not isinstance(task.sample, SeedBySeed)
    }
    for (name, metric), tasks in _AVERAGES.items():
        found = {key.task: task for key, task in whole.items() if key.metric == metric}
        if all(task in found for task in tasks):
            yield Key(name, "test", None, metric), [found[task] for task in tasks]


def _check_kinds(sources: Sequence[Source]) -> None:
    first = sources[0]
    kind = first.result["kind"]
    for source in sources[1:]:
        other = source.result["kind"]
        if kind != other and (kind in _SAMPLES or other in _SAMPLES):
            both = f"{first.path} is a result of {kind}, {source.path} of {other}"
            raise UserError(f"{both}: an attack is compared with an attack on the same task, an audit with an audit")
