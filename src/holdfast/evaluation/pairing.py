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
    SeedBySeed,
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
# Parts of a split that `finetune` draws by its seed.
_DRAWN_SPLITS = ("held-out", "held-out-test")
# What must be equal for two success rates to be of the same attack; thresholds that nobody gave follow from
# the model.
_GOAL = ("kind", "margin", "k")
# What decides an item of an audit besides the texts, the seed and the recipe, as the protocol has it.
_DECIDED_BY = {"audit-advsts": "advsts", "audit-advsts-typos": "advsts", "audit-neighbours": "neighbours"}


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


class _OtherTexts(UserError):
    """Rows of one split that are not of the same texts; rows of other splits may be."""


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
        ``recipe`` for attacks, ``seed_by_seed`` where each seed has items of its own), with ``metrics`` as
        `holdfast.evaluation.comparison.Difference` has them; the averages of the seven similarity and transfer tasks
        last, where all are there. And what is left out, or has to be known, a line each.

    Raises:
        UserError: nothing in common, other items, items of another attack, or results without items.
    """
    sources = [*baseline.sources, *other.sources]
    _check_kinds(sources)
    paired = _SAMPLES.get(sources[0].result["kind"])
    samples, notes = paired(sources) if paired is not None else _measured(sources, len(baseline.sources))
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
        **({"seed_by_seed": True} if isinstance(tasks[0].sample, SeedBySeed) else {}),
        "metrics": metrics,
        "test": found.test,
    }


def _averages(drawn: Mapping[_Key, Resampled]) -> Iterator[tuple[_Key, list[Resampled]]]:
    # The models of a task that is paired seed by seed have an order of their own.
    whole = {
        key: task
        for key, task in drawn.items()
        if key.split in _WHOLE_SPLITS and not isinstance(task.sample, SeedBySeed)
    }
    for (name, metric), tasks in _AVERAGES.items():
        found = {key.task: task for key, task in whole.items() if key.metric == metric}
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


def _measured(sources: Sequence[Source], baselines: int) -> tuple[dict[_Key, Sample], list[str]]:
    """Samples of the rows that all results hold; the first ``baselines`` of these are the baseline's."""
    rows = [_scored(source) for source in sources]
    shared, notes = _common([list(own) for own in rows], sources)
    notes += _without_items(sources)
    samples: dict[_Key, Sample] = {}
    apart: list[_OtherTexts] = []
    for key in shared:
        same = [own[key] for own in rows]
        _check_data(key, same, sources)
        try:
            groups = _by_items(key, same, sources, baselines)
        except _OtherTexts as error:
            apart.append(error)
            continue
        by_items = [_sample(key, [same[i] for i in group], [sources[i] for i in group]) for group in groups]
        samples[key] = by_items[0] if len(by_items) == 1 else SeedBySeed(by_items)
    if not samples:
        raise apart[0]
    notes += [f"not compared: {error}" for error in apart]
    by_seed = [_told(key) for key, sample in samples.items() if isinstance(sample, SeedBySeed)]
    if by_seed:
        notes.append(f"paired seed by seed, as each seed has texts of its own: {', '.join(by_seed)}")
    return samples, notes


def _scored(source: Source) -> dict[_Key, Mapping[str, Any]]:
    """A result's rows that hold items.

    Raises:
        UserError: there is none.
    """
    rows = {_key_of(row): row for row in source.result["results"] if _is_of_scores(row)}
    if not rows:
        raise UserError(
            f"{source.path} (a result of {source.result['kind']}) holds no items to compare: make it again with "
            "this version of `holdfast evaluate`, `finetune`, `attack` or `audit`"
        )
    return rows


def _without_items(sources: Sequence[Source]) -> list[str]:
    """A line about the rows that hold scores and no items."""
    bare = dict.fromkeys(
        f"{row['task']} {row['split']}"
        for source in sources
        for row in source.result["results"]
        if "items" not in row and row["metrics"]
    )
    return [f"without items, so not compared: {', '.join(bare)}"] if bare else []


def _is_of_scores(row: Mapping[str, Any]) -> bool:
    return "items" in row and "text" not in row["items"]


def _key_of(row: Mapping[str, Any]) -> _Key:
    return _Key(row["task"], row["split"], None, "accuracy" if "correct" in row["items"] else "spearman")


def _values(items: Mapping[str, Any]) -> Sequence[float]:
    values: Sequence[float] = items["similarity"] if "similarity" in items else items["prediction"]
    return values


def _check_data(key: _Key, rows: Sequence[Mapping[str, Any]], sources: Sequence[Source]) -> None:
    """All of the same split, whichever of its items."""
    for row, source in zip(rows[1:], sources[1:], strict=True):
        if row.get("data_sha256") != rows[0].get("data_sha256"):
            raise _other_data(key, source, sources[0])


def _sample(key: _Key, rows: Sequence[Mapping[str, Any]], sources: Sequence[Source]) -> Sample:
    """What several models made of the same items.

    Raises:
        UserError: they cannot be the same: their number or their gold scores differ.
    """
    gold = rows[0]["items"].get("gold")
    for row, source in zip(rows[1:], sources[1:], strict=True):
        if row["n"] != rows[0]["n"] or row["items"].get("gold") != gold:
            raise _other_data(key, source, sources[0])
    if key.metric == "accuracy":
        return Shares([row["items"]["correct"] for row in rows])
    return Correlations(gold, [_values(row["items"]) for row in rows])


def _other_data(key: _Key, source: Source, first: Source) -> UserError:
    return UserError(
        f"{source.path}: {key.task} {key.split} is of other data than in {first.path} (data_sha256): "
        "measure both on the same files"
    )


# --- which items of a split --------------------------------------------------------------------------------------


def _by_items(
    key: _Key, rows: Sequence[Mapping[str, Any]], sources: Sequence[Source], baselines: int
) -> list[list[int]]:
    """The numbers of the results that are of the same items of a split.

    Returns:
        One group of all; or, where each seed has items of its own, a pair of a baseline's and another's for each.

    Raises:
        _OtherTexts: a result whose items none of the other side has, or, of several seeds, more than one.
    """
    groups: dict[str | None, list[int]] = {}
    for number, items in enumerate(_items_of(rows, sources)):
        groups.setdefault(items, []).append(number)
    if len(groups) == 1:
        return list(groups.values())
    if len(sources) == 2:
        raise _other_texts(key, rows, sources)
    for group in groups.values():
        for number in group:
            partners = sum((other < baselines) != (number < baselines) for other in group)
            if partners != 1:
                raise _OtherTexts(
                    f"{key.task} {key.split} is of other texts for each seed, and is paired seed by seed: on the texts "
                    f"of {sources[number].path} the other side has {partners or 'no'} results, not one: give both "
                    "sides the same --seed values, once each"
                )
    return list(groups.values())


def _items_of(rows: Sequence[Mapping[str, Any]], sources: Sequence[Source]) -> list[str | None]:
    """What tells the items of each result: their hash, or, of earlier versions, what drew them."""
    if all("items_sha256" in row for row in rows):
        return [str(row["items_sha256"]) for row in rows]
    return [_drawn_by(row, source) for row, source in zip(rows, sources, strict=True)]


def _drawn_by(row: Mapping[str, Any], source: Source) -> str | None:
    """What drew the items of a row; None: they are the whole split."""
    sample = _object(row.get("sample"))
    if "seed" in sample:  # of `evaluate`, whose samples are the same for every model
        return f"the fixed seed {shown(sample['seed'])}"
    return f"seed {source.result['seed']}" if sample or row["split"] in _DRAWN_SPLITS else None


def _other_texts(key: _Key, rows: Sequence[Mapping[str, Any]], sources: Sequence[Source]) -> _OtherTexts:
    """Why two results of one split cannot be paired, and what to do."""
    first, second = (_drawn_by(row, source) for row, source in zip(rows, sources, strict=True))
    what = f"{sources[1].path}: {key.task} {key.split} is of other texts than in {sources[0].path}"
    if first == second:
        return _OtherTexts(
            f"{what}, though of the same split (items_sha256): measure both with the same --data, --train-split and "
            "--test-examples"
        )
    drawn = [f"drawn by {by}" if by else "the whole split" for by in (second, first)]
    return _OtherTexts(
        f"{what} ({drawn[0]}, there {drawn[1]}): give both the same --seed, or measure both on a fixed test split"
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
    """A line where the results rest on different resources."""
    opened = [_resources(source) for source in sources]
    names = dict.fromkeys(chain.from_iterable(opened))
    other = [name for name in names if any(own.get(name) != opened[0].get(name) for own in opened[1:])]
    if not other:
        return []
    what = f"the {sources[0].result['kind']}s opened different resources ({shown(', '.join(other))})"
    return [f"{what}: what rests on them differs for that reason too"]


def _resources(source: Source) -> dict[str, Any]:
    """What a result rests on, by name; an audit's random synonyms also say how words were exchanged for them."""
    protocol = source.result["protocol"]
    exchanged = {name: protocol[name] for name in ("random_synonyms",) if name in protocol}
    return {**_object(protocol.get("opened_resources")), **exchanged}


def _check_attacks(key: _Key, sources: Sequence[Source]) -> None:
    first = _attack_of(sources[0], key)
    for source in sources[1:]:
        for what, value in _attack_of(source, key).items():
            if value != first[what]:
                raise UserError(
                    f"{source.path}: {key.recipe} has {what} {value}, in {sources[0].path} {first[what]}: attack alike"
                )
    if first["the goal"]["kind"] == "neighbours":
        _check_searched(key, sources)


def _check_searched(key: _Key, sources: Sequence[Source]) -> None:
    """Neighbours are lost among the texts that were drawn, attacked or not: among others it is another goal."""
    searched = [_drawn_texts(source, key) for source in sources]
    for source, texts in zip(sources[1:], searched[1:], strict=True):
        if texts != searched[0]:
            raise UserError(
                f"{source.path}: {key.recipe} has neighbours among other texts than in {sources[0].path}: attack both "
                "with the same --examples and --seed"
            )


def _drawn_texts(source: Source, key: _Key) -> set[str]:
    examples = examples_of(source.result, source.path, texts_only=True)
    return {example["original"] for example in examples if example["recipe"] == key.recipe}


def _attack_of(source: Source, key: _Key) -> dict[str, Any]:
    protocol = source.result["protocol"]
    goal = _object(protocol.get("goal"))
    recipe = _object(_object(protocol.get("recipes")).get(str(key.recipe)))
    told = {name: goal.get(name) for name in _GOAL}
    if goal.get("chosen") == "given":
        told["threshold"] = goal.get("threshold")
    return {"the constants": recipe.get("constants"), "the goal": told}


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
    apart = []
    for key in shared:
        same = [own[key] for own in rows]
        if (why := _set_otherwise(key, same, sources)) is not None:
            apart.append(f"{_told(key)}: {why}")
            continue
        if key.metric == "spearman":
            _check_data(key, same, sources)
            samples[key] = _sample(key, same, sources)
            continue
        found = [_by_text(source, row) for source, row in zip(sources, same, strict=True)]
        texts = [text for text in found[0] if all(text in others for others in found[1:])]
        if not texts:
            notes.append(f"no text that all results measured: {_told(key)}")
            continue
        values = [[own[text] for text in texts] for own in found]
        samples[key] = Means(values) if key.metric == "stability" else Shares(values)
    if not samples:
        none = "the audits measured no text in common: give --texts, --examples and --seed alike"
        raise UserError(f"the audits were set otherwise in all that they share: {apart[0]}" if apart else none)
    return samples, notes + [f"set otherwise, so not compared: {line}" for line in apart] + _other_resources(sources)


def _set_otherwise(key: _Key, rows: Sequence[Mapping[str, Any]], sources: Sequence[Source]) -> str | None:
    """How an item of one audit was set otherwise than that of the first: its recipe's constants, its scale, its k.

    Not a reason to refuse the audits: what is on a machine decides on some of it, and the other items are alike.
    """
    first, *others = (_settings_of(key, row, source) for row, source in zip(rows, sources, strict=True))
    for settings, source in zip(others, sources[1:], strict=True):
        names = [name for name in {**first, **settings} if settings.get(name) != first.get(name)]
        if names:
            here, there = (
                ", ".join(f"{name} {own.get(name, 'unknown')}" for name in names) for own in (settings, first)
            )
            return f"{source.path} has {shown(here)}, {sources[0].path} {shown(there)}"
    return None


def _settings_of(key: _Key, row: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """What decides an item of an audit, besides its texts and its seed, setting by setting."""
    name = _DECIDED_BY.get(key.task)
    found = source.result["protocol"].get(name) if name is not None else None
    decided = found if isinstance(found, dict) else {} if found is None else {str(name): found}
    return {**_object(row.get("constants")), **decided}


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
