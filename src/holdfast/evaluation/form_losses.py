"""Paired differences of what the forms of vectors lose: of quality, and of robustness to noise.

All rows of a task share their items, so that they are resampled together. ``against`` of a row in a form gets
``float32``: the score in this form minus that of the plain form on the same texts; and, of a row in noise,
``robustness``: what noise takes from the score in this form, minus what it takes from the plain form's. Below zero, the
form is less robust.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.errors import UserError
from holdfast.evaluation.comparison import Resampled, contrast, resample
from holdfast.evaluation.samples import Correlations, Means, Sample, Shares, TwoGroups
from holdfast.forms import FLOAT32, form_of

ROBUSTNESS = "robustness"
"""Key in ``against`` of the difference of the losses by noise."""
SEED = 42
"""Seed of the bootstrap."""

Version = tuple[str | None, str | None]
"""A form, None for the plain one, and a noise, None for clean texts."""
Contrasts = dict[str, dict[str, Any]]


def with_losses(rows: Sequence[dict[str, Any]], seed: int = SEED) -> list[dict[str, Any]]:
    """Return rows of similarity, transfer or audit items, those in a form with ``against``.

    Rows of one task and split have the same items, or none, and then no differences; so does a row whose plain partner
    is not there.
    """
    groups: dict[tuple[Any, ...], dict[Version, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_group_of(row), {})[form_of(row), row.get("noise")] = row
    found: dict[int, Contrasts] = {}
    for (*names, _), own in groups.items():
        paired = {version: row for version, row in own.items() if "items" in row}
        if len(paired) > 1 and any(form is not None for form, _ in paired):
            metric, sample = _sample_of(list(paired.values()))
            losses = losses_of({metric: sample}, list(paired), seed=seed, name="/".join(map(str, names)))
            found |= {id(paired[version]): each for version, each in losses.items()}
    for row in rows:
        if id(row) in found:
            row["against"] = {**row.get("against", {}), **found[id(row)]}
    return list(rows)


def losses_of(
    samples: Mapping[str, Sample], versions: Sequence[Version], *, seed: int = SEED, name: str = ""
) -> dict[Version, Contrasts]:
    """Return the entries of ``against`` of the versions in a form, by version.

    Args:
        samples: by metric, the outputs of V versions on the same items.
        versions: the V versions, in the order of the samples.
        seed: the seed of the bootstrap.
        name: name of the task, which makes its draws independent of those of other tasks.
    """
    found: dict[Version, Contrasts] = {}
    for metric, sample in samples.items():
        drawn = resample(sample, seed=seed, name=f"{name}/{metric}")
        for form, noise in versions:
            for key, weights in _weights(form, noise, versions).items():
                entry = found.setdefault((form, noise), {}).setdefault(key, {"n": sample.count})
                if (made := _contrast(drawn, weights)) is not None:
                    entry[metric] = made
    return found


def _weights(form: str | None, noise: str | None, versions: Sequence[Version]) -> dict[str, list[float]]:
    """Return the weights of the versions in each difference that a row has, by its key in ``against``."""
    if form is None or (None, noise) not in versions:
        return {}
    terms = {FLOAT32: {(form, noise): 1.0, (None, noise): -1.0}}
    if noise is not None and (form, None) in versions and (None, None) in versions:
        terms[ROBUSTNESS] = {**terms[FLOAT32], (form, None): -1.0, (None, None): 1.0}
    return {key: [own.get(version, 0.0) for version in versions] for key, own in terms.items()}


def _contrast(drawn: Resampled, weights: Sequence[float]) -> dict[str, float] | None:
    """Return ``{difference, low, high, p}``; None if most resamples have no score."""
    try:
        return contrast(drawn, weights)
    except UserError:
        return None


def _group_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of the rows with the same items: task, split without noise, recipe, data, and the items' texts."""
    noise = row.get("noise")
    split = row["split"] if noise is None else str(row["split"]).removesuffix(f" {noise}")
    items = row.get("items", {})
    return row["task"], split, row.get("recipe"), row.get("data_sha256"), tuple(items.get("text", ())) or row["n"]


def _sample_of(rows: Sequence[Mapping[str, Any]]) -> tuple[str, Sample]:
    """Return the name of the metric and the outputs of V rows on the same items."""
    items = [row["items"] for row in rows]
    names = set(items[0])
    if "gold" in names:
        values = "similarity" if "similarity" in names else "prediction"
        return "spearman", Correlations(items[0]["gold"], [own[values] for own in items])
    if "correct" in names:
        metric = "accuracy" if "accuracy" in rows[0]["metrics"] else "found"
        return metric, Shares([own["correct"] for own in items])
    if all("entailed_nearer" in row for row in rows):
        both = [own["nearer"] for own in items], [row["entailed_nearer"] for row in rows]
        return str(rows[0]["headline"]), TwoGroups(*both)
    values = next(name for name in ("stability", "nearer") if name in names)
    return str(rows[0]["headline"]), Means(np.array([own[values] for own in items]))
