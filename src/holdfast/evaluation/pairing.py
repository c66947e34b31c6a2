"""`holdfast compare`: from result files to samples of the items that they share, and to rows of differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.errors import UserError
from holdfast.evaluation.comparison import (
    RESAMPLES,
    Correlations,
    Difference,
    Means,
    Resampled,
    Sample,
    Shares,
    difference,
    resample,
)
from holdfast.evaluation.sts import STS_TASKS
from holdfast.evaluation.transfer import TRANSFER_TASKS
from holdfast.results import examples_of, read_with_state, shown
from holdfast.values import paths_in

_AVERAGES = {("sts average", "spearman"): STS_TASKS, ("transfer average", "accuracy"): TRANSFER_TASKS}
_WHOLE_SPLITS = ("test", "all")
# What must be equal for two success rates to be of the same attack; thresholds may follow from the model.
_GOAL = ("kind", "margin", "k")


@dataclass(frozen=True)
class Source:
    """A result and the file that it comes from, and whether that was changed since it was written."""

    path: Path
    result: dict[str, Any]
    changed: bool = False

    @property
    def is_attack(self) -> bool:
        """Whether its items are attacked texts."""
        return bool(self.result["kind"] == "attack")


@dataclass(frozen=True)
class Side:
    """One model, or one method with several seeds."""

    name: str
    sources: tuple[Source, ...]


class _Key(NamedTuple):
    task: str
    split: str
    recipe: str | None
    metric: str


def read_side(words: str) -> Side:
    """The side that a path names, or several joined by commas: one result per seed.

    Raises:
        UserError: no result; a file or a model given twice; an attack together with something else.
    """
    paths = [Path(word) for word in paths_in(words)]
    if not paths:
        raise UserError("a result file is missing: give A.json B.json, and several seeds as a-1.json,a-2.json")
    read = [(path, *read_with_state(path)) for path in paths]
    sources = tuple(Source(path, result, state == "changed") for path, result, state in read)
    seen: dict[tuple[str, Any], Path] = {}
    for source in sources:
        # The same encoder measured twice is one seed; an attack has draws of its own.
        key = (source.result["model_sha256"], source.result["seed"] if source.is_attack else None)
        if key in seen:
            raise UserError(f"{seen[key]} and {source.path} hold the same model: seeds are models of several trainings")
        seen[key] = source.path
    first = sources[0]
    name = shown(str(first.result["model"])) + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
    return Side(name, sources)


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
        ``recipe`` for attacks), with ``metrics`` as `holdfast.evaluation.comparison.Difference` has them; the averages
        of the seven similarity and transfer tasks last, where all are there. And what is left out, a line each.

    Raises:
        UserError: nothing in common, items of other data or of another attack, or results without items.
    """
    sources = [*baseline.sources, *other.sources]
    _check_kinds(sources)
    samples, notes = _SAMPLES.get(sources[0].result["kind"], _measured)(sources)
    drawn = {
        key: resample(sample, seed=seed, name="/".join(map(str, key)), resamples=resamples)
        for key, sample in samples.items()
    }
    groups = {key: [task] for key, task in drawn.items()} | dict(_averages(drawn))
    rows = []
    for key, tasks in groups.items():
        try:
            found = difference(tasks, len(baseline.sources), seed=seed)
        except UserError as error:
            raise UserError(f"{key.task} {key.split}: {error}") from error
        rows.append(_row(key, tasks, found, baseline, other))
    return rows, notes


def _row(key: _Key, tasks: Sequence[Resampled], found: Difference, baseline: Side, other: Side) -> dict[str, Any]:
    metrics = {name: value for name, value in vars(found).items() if name != "test" and value is not None}
    return {
        "task": key.task,
        "split": key.split,
        "n": sum(task.sample.count for task in tasks),
        **({"recipe": key.recipe} if key.recipe is not None else {}),
        "metric": key.metric,
        "baseline": baseline.name,
        "other": other.name,
        "seeds": [len(baseline.sources), len(other.sources)],
        "metrics": metrics,
        "test": found.test,
    }


def _averages(drawn: Mapping[_Key, Resampled]) -> Iterator[tuple[_Key, list[Resampled]]]:
    for (name, metric), tasks in _AVERAGES.items():
        found = {key.task: task for key, task in drawn.items() if key.metric == metric and key.split in _WHOLE_SPLITS}
        if all(task in found for task in tasks):
            yield _Key(name, "test", None, metric), [found[task] for task in tasks]


def _check_kinds(sources: Sequence[Source]) -> None:
    first = sources[0]
    kind = first.result["kind"]
    for source in sources[1:]:
        other = source.result["kind"]
        if kind != other and (kind in _SAMPLES or other in _SAMPLES):
            both = f"{first.path} is a result of {kind}, {source.path} of {other}"
            raise UserError(f"{both}: an attack is compared with an attack on the same task, an audit with an audit")


def _common(keys: Sequence[Sequence[_Key]], sources: Sequence[Source]) -> tuple[list[_Key], list[str]]:
    """What all results hold, and lines about the rest.

    Raises:
        UserError: nothing.
    """
    shared = [key for key in keys[0] if all(key in others for others in keys[1:])]
    if not shared:
        held = "; ".join(
            f"{source.path} holds {', '.join(dict.fromkeys(map(_told, own))) or 'nothing'}"
            for source, own in zip(sources, keys, strict=True)
        )
        raise UserError(f"the results have no task in common: {held}")
    everything = dict.fromkeys(chain.from_iterable(keys))
    left = [_told(key) for key in everything if key not in shared]
    return shared, [f"not in all of the results: {', '.join(left)}"] if left else []


def _told(key: _Key) -> str:
    return " ".join(part for part in (key.task, key.split, key.recipe) if part)


# --- rows with items ---------------------------------------------------------------------------------------------


def _measured(sources: Sequence[Source]) -> tuple[dict[_Key, Sample], list[str]]:
    """Samples of the rows that all results hold."""
    rows = [{_key_of(row): row for row in source.result["results"] if _is_of_scores(row)} for source in sources]
    for source, own in zip(sources, rows, strict=True):
        if not own:
            raise UserError(
                f"{source.path} (a result of {source.result['kind']}) holds no items to compare: make it again with "
                "this version of `holdfast evaluate`, `finetune`, `attack` or `audit`"
            )
    shared, notes = _common([list(own) for own in rows], sources)
    bare = dict.fromkeys(
        f"{row['task']} {row['split']}"
        for source in sources
        for row in source.result["results"]
        if "items" not in row and row["metrics"]
    )
    if bare:
        notes.append(f"without items, so not compared: {', '.join(bare)}")
    samples: dict[_Key, Sample] = {}
    for key in shared:
        same = [found[key] for found in rows]
        _check_data(key, same, sources)
        if key.metric == "accuracy":
            samples[key] = Shares([row["items"]["correct"] for row in same])
        else:
            samples[key] = Correlations(same[0]["items"]["gold"], [_values(row["items"]) for row in same])
    return samples, notes


def _is_of_scores(row: Mapping[str, Any]) -> bool:
    return "items" in row and "text" not in row["items"]


def _key_of(row: Mapping[str, Any]) -> _Key:
    return _Key(row["task"], row["split"], None, "accuracy" if "correct" in row["items"] else "spearman")


def _values(items: Mapping[str, Any]) -> Sequence[float]:
    values: Sequence[float] = items["similarity"] if "similarity" in items else items["prediction"]
    return values


def _check_data(key: _Key, rows: Sequence[Mapping[str, Any]], sources: Sequence[Source]) -> None:
    for row, source in zip(rows[1:], sources[1:], strict=True):
        gold = row["items"].get("gold") == rows[0]["items"].get("gold")
        if row.get("data_sha256") != rows[0].get("data_sha256") or row["n"] != rows[0]["n"] or not gold:
            raise UserError(
                f"{source.path}: {key.task} {key.split} is of other data than in {sources[0].path} (data_sha256): "
                "measure both on the same files"
            )


# --- attacked texts ----------------------------------------------------------------------------------------------


def _attacks(sources: Sequence[Source]) -> tuple[dict[_Key, Sample], list[str]]:
    """Samples of the texts that all results attacked with the same recipe: whether the attack succeeded."""
    keys = [
        [_Key(row["task"], row["split"], str(row.get("recipe")), "success_rate") for row in source.result["results"]]
        for source in sources
    ]
    shared, notes = _common(keys, sources)
    samples: dict[_Key, Sample] = {}
    for key in shared:
        _check_attacks(key, sources)
        outcomes = [_outcomes(source, "recipe", str(key.recipe)) for source in sources]
        texts = [text for text in outcomes[0] if all(text in others for others in outcomes[1:])]
        if texts:
            samples[key] = Shares([[own[text] for text in texts] for own in outcomes])
        else:
            notes.append(f"no text that all results attacked: {_told(key)}")
    if not samples:
        raise UserError("the results attacked no text in common: give --examples and --seed alike, or attack all texts")
    return samples, notes + _other_resources(sources)


def _other_resources(sources: Sequence[Source]) -> list[str]:
    opened = [source.result["protocol"].get("opened_resources") for source in sources]
    if all(resources == opened[0] for resources in opened[1:]):
        return []
    return ["the attacks opened different resources: their success rates differ for that reason too"]


def _check_attacks(key: _Key, sources: Sequence[Source]) -> None:
    first = _attack_of(sources[0], key)
    for source in sources[1:]:
        for what, value in _attack_of(source, key).items():
            if value != first[what]:
                raise UserError(
                    f"{source.path}: {key.recipe} has {what} {value}, in {sources[0].path} {first[what]}: attack alike"
                )


def _attack_of(source: Source, key: _Key) -> dict[str, Any]:
    protocol = source.result["protocol"]
    goal = _object(protocol.get("goal"))
    recipe = _object(_object(protocol.get("recipes")).get(str(key.recipe)))
    return {"the constants": recipe.get("constants"), "the goal": {name: goal.get(name) for name in _GOAL}}


def _object(value: Any) -> dict[str, Any]:
    """What a file holds under a name, or nothing where that is no object."""
    return value if isinstance(value, dict) else {}


def _outcomes(source: Source, what: str, name: str) -> dict[tuple[str | None, str, int], bool]:
    """Whether each text that a recipe, or an item, attacked was brought to the goal.

    A text that occurs twice is told apart by its place.
    """
    found: dict[tuple[str | None, str, int], bool] = {}
    times: dict[tuple[str | None, str], int] = {}
    for example in examples_of(source.result, source.path, texts_only=True):
        if example.get(what) != name:
            continue
        text = (example.get("other"), example["original"])
        times[text] = times.get(text, 0) + 1
        if example["outcome"] != "skipped":
            found[(*text, times[text])] = example["outcome"] == "succeeded"
    return found


# --- audits ------------------------------------------------------------------------------------------------------


def _audits(sources: Sequence[Source]) -> tuple[dict[_Key, Sample], list[str]]:
    """Samples of the items that all audits measured, on the texts that all of them measured it on."""
    _check_audited(sources)
    rows = [{_audit_key(row): row for row in source.result["results"] if is_paired(row)} for source in sources]
    shared, notes = _common([list(own) for own in rows], sources)
    samples: dict[_Key, Sample] = {}
    for key in shared:
        same = [own[key] for own in rows]
        if key.metric == "spearman":
            _check_data(key, same, sources)
            samples[key] = Correlations(same[0]["items"]["gold"], [_values(row["items"]) for row in same])
            continue
        found = [_by_text(source, row) for source, row in zip(sources, same, strict=True)]
        texts = [text for text in found[0] if all(text in others for others in found[1:])]
        if not texts:
            notes.append(f"no text that all results measured: {_told(key)}")
            continue
        values = [[own[text] for text in texts] for own in found]
        samples[key] = Means(values) if key.metric == "stability" else Shares(values)
    if not samples:
        raise UserError("the audits measured no text in common: give --texts, --examples and --seed alike")
    return samples, notes + _other_resources(sources)


def is_paired(row: Mapping[str, Any]) -> bool:
    """Whether an audit's row says what became of each text."""
    items = row.get("items", ())
    return "text" in items or "gold" in items or "recipe" in row


def _check_audited(sources: Sequence[Source]) -> None:
    """All of the same texts, changed alike."""
    first = sources[0].result
    for source in sources[1:]:
        audited = source.result
        same = all(audited["protocol"].get(name) == first["protocol"].get(name) for name in ("texts", "max_words"))
        if not same or audited["seed"] != first["seed"]:
            raise UserError(
                f"{source.path}: an audit of other texts than {sources[0].path}, or of texts changed in another way: "
                "audit both with the same --texts, --seed and --max-words"
            )


def _audit_key(row: Mapping[str, Any]) -> _Key:
    items, recipe = row.get("items", ()), str(row["recipe"]) if "recipe" in row else None
    names = {"gold": "spearman", "stability": "stability", "correct": "found"}
    metric = next((metric for name, metric in names.items() if name in items), "success_rate")
    return _Key(row["task"], row["split"], recipe, metric)


def _by_text(source: Source, row: Mapping[str, Any]) -> Mapping[Any, float]:
    """What an item's headline is the mean of, by text."""
    if "items" not in row:
        return _outcomes(source, "item", row["task"])
    values = row["items"]["stability" if "stability" in row["items"] else "correct"]
    return dict(zip(row["items"]["text"], values, strict=True))


_SAMPLES = {"attack": _attacks, "audit": _audits}
"""What makes samples of results whose items are not in rows of scores, by the kind of result."""
