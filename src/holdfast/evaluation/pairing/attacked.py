"""Samples of attacked texts: the success and the queries of the attack on each text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, as_object, common, common_values, name_of
from holdfast.evaluation.pairing.poisoned import TASK as POISON
from holdfast.evaluation.pairing.poisoned import not_paired, poisoned_sample
from holdfast.evaluation.samples import Means, Sample, Shares
from holdfast.forms import form_of
from holdfast.results import examples_of, shown

# Fields that must be equal for two success rates to belong to the same attack; a threshold that was not given
# depends on the model.
_GOAL = ("kind", "margin", "k", "passages")

TextKey = tuple[str | None, str, int]
"""An attacked text: the other text of its pair, the text, and which of its occurrences it is, from 1."""

# A note is added if the results share less than this part of the texts of the smallest result.
_ENOUGH = 0.5


def attacked_samples(sources: Sequence[ComparedResult]) -> tuple[dict[RowKey, Sample], list[str]]:
    """Return samples of the texts that all results attacked with the same recipe: success and queries, per text.

    Queries are compared if every example has their number, as all results of `holdfast attack` do.
    """
    keys = [
        [
            RowKey(row["task"], row["split"], str(row.get("recipe")), "success_rate", form_of(row))
            for row in source.result["results"]
        ]
        for source in sources
    ]
    shared, notes = common(keys, sources)
    samples: dict[RowKey, Sample] = {}
    for key in shared:
        _check_attacks(key, sources)
        notes += _other_parts(key, sources)
        if key.task == POISON:
            rows = [_poisoned_row(source, key) for source in sources]
            if (reason := not_paired(rows)) is not None:
                notes.append(f"not compared: {name_of(key)}: {reason}")
            else:
                samples[key] = poisoned_sample(rows)
            continue
        attacked = [_attacked(source, "recipe", str(key.recipe)) for source in sources]
        successes = common_values([_outcomes(own) for own in attacked])
        count, fewest = len(successes[0]), min(map(len, attacked))
        if not count:
            notes.append(f"no text that all results attacked: {name_of(key)}")
            continue
        if count < _ENOUGH * fewest:
            notes.append(
                f"few texts that all results attacked: {name_of(key)}, {count:,} of at least {fewest:,} in each; "
                "use the same --examples and --seed for more"
            )
        samples[key] = Shares(successes)
        if all("queries" in example for own in attacked for example in own.values()):
            samples[key._replace(metric="queries")] = Means(common_values([_queries(own) for own in attacked]))
    if not samples:
        raise UserError(
            "the results attacked no text in common: use the same --examples and --seed, or attack all texts"
            + "".join(f"; {note}" for note in notes)
        )
    return samples, notes + other_resources(sources)


def _poisoned_row(source: ComparedResult, key: RowKey) -> Mapping[str, Any]:
    """Return the row of a recipe's passages, with the hash of the held-out queries."""
    row = next(row for row in source.result["results"] if row.get("recipe") == key.recipe and form_of(row) == key.form)
    queries = {name: value for name, value in source.result["protocol"].items() if name == "held_out_sha256"}
    return {**queries, **row}


def attacked_by_all(models: Sequence[Sequence[ComparedResult]], keys: Sequence[RowKey]) -> Means | None:
    """Return a sample of the texts that all of several attacks attacked on all models: share of successes x100.

    An item is a text with all attacks on it: attacks on the same text are not separate items. Each model has a result
    for each key; the keys are those of attacks on one split. Return None if there is no such text.
    """
    outcomes = [[outcomes_of(source, "recipe", str(key.recipe)) for source, key in zip(own, keys, strict=True)]
                for own in models]  # fmt: skip
    everything = list(chain.from_iterable(outcomes))
    texts = [text for text in everything[0] if all(text in others for others in everything[1:])]
    if not texts:
        return None
    return Means([[100.0 * sum(own[text] for own in attacks) / len(keys) for text in texts] for attacks in outcomes])


def other_resources(sources: Sequence[ComparedResult]) -> list[str]:
    """Return a line if the results used different resources, else no line."""
    first, *others = (_resources(source) for source in sources)
    names = dict.fromkeys(chain(first, *others))
    other = [name for name in names if any(own.get(name) != first.get(name) for own in others)]
    if not other:
        return []
    results = f"the {sources[0].result['kind']}s used different resources ({shown(', '.join(other))})"
    return [f"{results}: differences may also come from these"]


def _resources(source: ComparedResult) -> dict[str, Any]:
    """Return the resources of a result by name; for an audit's random synonyms, also the way words were exchanged."""
    protocol = source.result["protocol"]
    exchanged = {name: protocol[name] for name in ("random_synonyms",) if name in protocol}
    return {**as_object(protocol.get("opened_resources")), **exchanged}


def _check_attacks(key: RowKey, sources: Sequence[ComparedResult]) -> None:
    first = _attack_of(sources[0], key)
    for source in sources[1:]:
        for name, value in _attack_of(source, key).items():
            if value != first[name]:
                raise UserError(
                    f"{source.path}: {key.recipe} has {name} {value}, in {sources[0].path} {first[name]}: "
                    "use the same settings for both"
                )
    if first["the goal"]["kind"] in ("neighbours", POISON):
        _check_searched(key, sources)


def _check_searched(key: RowKey, sources: Sequence[ComparedResult]) -> None:
    """Refuse results whose neighbours were searched in different texts: their goals differ."""
    searched = [_searched(source, key) for source in sources]
    for source, texts in zip(sources[1:], searched[1:], strict=True):
        if texts != searched[0]:
            raise UserError(
                f"{source.path}: {key.recipe} searched neighbours among other texts than in {sources[0].path}: attack "
                "both with the same --search"
            )


def _searched(source: ComparedResult, key: RowKey) -> Any:
    """Return the hash of the texts that were searched; for results of earlier versions, the texts that were drawn."""
    goal = as_object(source.result["protocol"].get("goal"))
    if (digest := as_object(goal.get("searched")).get("sha256")) is not None:
        return digest
    examples = examples_of(source.result, source.path, texts_only=True)
    return {example["original"] for example in examples if example["recipe"] == key.recipe}


def _attack_of(source: ComparedResult, key: RowKey) -> dict[str, Any]:
    protocol = source.result["protocol"]
    goal = as_object(protocol.get("goal"))
    recipe = as_object(as_object(protocol.get("recipes")).get(str(key.recipe)))
    compared = {name: goal.get(name) for name in _GOAL}
    if goal.get("chosen") == "given":
        compared["threshold"] = goal.get("threshold")
    code = str(recipe.get("sha256"))[:12]  # of a user-defined recipe
    return {"the constants": recipe.get("constants"), "the code": code, "the goal": compared}


def _other_parts(key: RowKey, sources: Sequence[ComparedResult]) -> list[str]:
    """Return a line if ensembles attacked with different recipes, as of a hardened model, or one without gradients.

    Raises:
        UserError: a recipe that both have has other constants.
    """
    first, *others = (_parts(source, key) for source in sources)
    for source, parts in zip(sources[1:], others, strict=True):
        for name in first.keys() & parts.keys():
            if first[name] != parts[name]:
                raise UserError(
                    f"{source.path}: {key.recipe} runs {name} with other constants than in {sources[0].path}: use the "
                    "same settings for both"
                )
    different = sorted(set(first).union(*others) - set(first).intersection(*others))
    if not different:
        return []
    return [f"{name_of(key)} has {shown(', '.join(different))} in some of the results only: each is its own worst case"]


def _parts(source: ComparedResult, key: RowKey) -> dict[str, Any]:
    """Return the constants of each recipe of an ensemble; empty for another recipe."""
    recipe = as_object(as_object(source.result["protocol"].get("recipes")).get(str(key.recipe)))
    return {name: as_object(part).get("constants") for name, part in as_object(recipe.get("parts")).items()}


def outcomes_of(source: ComparedResult, field: str, name: str) -> dict[TextKey, bool]:
    """Map each text that a recipe, or an item, attacked to True if the attack succeeded."""
    return _outcomes(_attacked(source, field, name))


def _outcomes(attacked: Mapping[TextKey, Mapping[str, Any]]) -> dict[TextKey, bool]:
    return {text: example["outcome"] == "succeeded" for text, example in attacked.items()}


def _queries(attacked: Mapping[TextKey, Mapping[str, Any]]) -> dict[TextKey, float]:
    return {text: float(example["queries"]) for text, example in attacked.items()}


def _attacked(source: ComparedResult, field: str, name: str) -> dict[TextKey, dict[str, Any]]:
    """Map each text that a recipe, or an item, attacked to its example.

    Occurrences of the same text are numbered, so that they have different keys.
    """
    found: dict[TextKey, dict[str, Any]] = {}
    times: dict[tuple[str | None, str], int] = {}
    for example in examples_of(source.result, source.path, texts_only=True):
        if example.get(field) != name:
            continue
        text = (example.get("other"), example["original"])
        times[text] = times.get(text, 0) + 1
        if example["outcome"] != "skipped":
            key = (*text, times[text])
            found[key] = example
    return found
