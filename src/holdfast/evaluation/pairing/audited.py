"""Samples of the items of audits, text by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.pairing.attacked import other_resources, outcomes_of
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, as_object, common, common_values, name_of
from holdfast.evaluation.pairing.poisoned import not_paired, poisoned_sample
from holdfast.evaluation.pairing.scores import check_data, sample_of
from holdfast.evaluation.samples import Means, Sample, Shares, TwoGroups
from holdfast.forms import form_of
from holdfast.results import shown

# Key in the protocol of what else decides an item of an audit, besides the texts, the seed and the recipe.
_DECIDED_BY = {
    "audit-advsts": "advsts",
    "audit-advsts-typos": "advsts",
    "audit-neighbours": "neighbours",
    "audit-retrieval": "retrieval",
}
# Main figures that are means of a number per text, on the scale of that number; the others are shares.
_MEANS = ("stability", "p_hold_nearer")
POISONING = "audit-poisoning"


def audited_samples(sources: Sequence[ComparedResult]) -> tuple[dict[RowKey, Sample], list[str]]:
    """Return samples of the items that all audits measured, on the texts that all of them measured."""
    _check_audited(sources)
    rows = [{_audit_key(row): row for row in source.result["results"] if is_paired(row)} for source in sources]
    shared, notes = common([list(own) for own in rows], sources)
    samples: dict[RowKey, Sample] = {}
    excluded = []
    for key in shared:
        same = [own[key] for own in rows]
        if (difference := _other_settings(key, same, sources)) is not None:
            excluded.append(f"{name_of(key)}: {difference}")
            continue
        if key.metric == "spearman":
            check_data(key, same, sources)
            samples[key] = sample_of(key, same, sources)
            continue
        if key.metric == "p_entailed_nearer":
            samples[key], note = _of_both_kinds(key, same)
            notes += note
            continue
        if key.task == POISONING:
            samples[key] = poisoned_sample(same)
            continue
        values = common_values([_by_text(source, row) for source, row in zip(sources, same, strict=True)])
        if not values[0]:
            notes.append(f"no text that all results measured: {name_of(key)}")
            continue
        samples[key] = Means(values) if key.metric in _MEANS else Shares(values)
    if not samples:
        if excluded:
            raise UserError(f"all items that the audits share have different settings: {excluded[0]}")
        raise UserError("the audits measured no text in common: use the same --texts, --examples and --seed")
    notes += [f"different settings, so not compared: {line}" for line in excluded]
    return samples, notes + other_resources(sources)


def _other_settings(key: RowKey, rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> str | None:
    """Return the difference in an item's settings between one audit and the first: constants of the recipe, scale, k.

    The audits are not refused for this: some settings depend on what is installed, and the other items agree.
    Return None if there is no difference.
    """
    if key.metric == "p_entailed_nearer" and any(_pairs_of(row) != _pairs_of(rows[0]) for row in rows[1:]):
        return "measured on other pairs, and the value of a pair depends on all others"
    if key.task == POISONING and (reason := not_paired(rows)) is not None:
        return reason
    first, *others = (_settings_of(key, row, source) for row, source in zip(rows, sources, strict=True))
    for settings, source in zip(others, sources[1:], strict=True):
        names = [name for name in {**first, **settings} if settings.get(name) != first.get(name)]
        if names:
            here, there = (
                ", ".join(f"{name} {own.get(name, 'unknown')}" for name in names) for own in (settings, first)
            )
            return f"{source.path} has {shown(here)}, {sources[0].path} {shown(there)}"
    return None


def _of_both_kinds(key: RowKey, rows: Sequence[Mapping[str, Any]]) -> tuple[Sample, list[str]]:
    """Return the sample of the pairs of a labelled set, and a line if not all rows have both kinds."""
    contradicted = [row["items"]["nearer"] for row in rows]
    if all("entailed_nearer" in row for row in rows):
        return TwoGroups(contradicted, [row["entailed_nearer"] for row in rows]), []
    return Means(contradicted), [
        f"{name_of(key)} is of an earlier version, without values of the entailed pairs: its interval is too narrow; "
        "audit again"
    ]


def _pairs_of(row: Mapping[str, Any]) -> tuple[Sequence[int], int]:
    """Return the contradicted pairs of a labelled set, by row, and the number of the entailed ones."""
    return row["items"]["text"], row["entailed"]


def _settings_of(key: RowKey, row: Mapping[str, Any], source: ComparedResult) -> dict[str, Any]:
    """Return the settings that decide an item of an audit, besides its texts and its seed."""
    name = _DECIDED_BY.get(key.task)
    found = source.result["protocol"].get(name) if name is not None else None
    decided = found if isinstance(found, dict) else {} if found is None else {str(name): found}
    return {**as_object(row.get("constants")), **decided}


def is_paired(row: Mapping[str, Any]) -> bool:
    """Return True if an audit's row has the outcome of each text."""
    items = row.get("items", ())
    return "text" in items or "gold" in items or "recipe" in row


def _check_audited(sources: Sequence[ComparedResult]) -> None:
    """Refuse audits of different texts, or of texts changed in different ways."""
    first = sources[0].result
    for source in sources[1:]:
        audited = source.result
        same = all(audited["protocol"].get(name) == first["protocol"].get(name) for name in ("texts", "max_words"))
        if not same or audited["seed"] != first["seed"]:
            raise UserError(
                f"{source.path}: an audit of other texts than {sources[0].path}, or of texts changed in another way: "
                "audit both with the same --texts, --seed and --max-words"
            )


def _audit_key(row: Mapping[str, Any]) -> RowKey:
    items, recipe = row.get("items", ()), str(row["recipe"]) if "recipe" in row else None
    nearer = "p_entailed_nearer" if "p_entailed_nearer" in row["metrics"] else "p_hold_nearer"
    names = {"gold": "spearman", "stability": "stability", "correct": "found", "nearer": nearer}
    metric = next((metric for name, metric in names.items() if name in items), "success_rate")
    return RowKey(row["task"], row["split"], recipe, metric, form_of(row))


def _by_text(source: ComparedResult, row: Mapping[str, Any]) -> Mapping[Any, float]:
    """Return, by text, the values whose mean is the main figure of an item."""
    if "items" not in row:
        return outcomes_of(source, "item", row["task"])
    values = next(row["items"][name] for name in ("stability", "nearer", "correct") if name in row["items"])
    return dict(zip(row["items"]["text"], values, strict=True))
