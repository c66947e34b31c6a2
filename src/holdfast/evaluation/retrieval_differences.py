"""Paired differences between the rows of retrieval of one run: to the clean queries, to the encoder, between forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.data.beir import CLEAN
from holdfast.evaluation.comparison import difference, resample
from holdfast.evaluation.form_losses import ROBUSTNESS, Contrasts, Version, losses_of
from holdfast.evaluation.retrieval_systems import ENCODER
from holdfast.evaluation.samples import Means, Sample, Shares

SEED = 42
"""Seed of the bootstrap of differences between two rows."""

Values = dict[str, npt.NDArray[np.float64]]
"""The value of each metric for each query, from 0 to 1."""
RowValues = dict[tuple[str, str | None, str], tuple[Sequence[str], Values]]
"""The ids of the queries and their values, by system, form of the vectors and name of the queries."""


def retrieval_sample(values: npt.ArrayLike) -> Sample:
    """Return the sample of one metric's values, from 0 to 1, of V systems on n queries: (V, n); scores are ×100.

    If all values are 0 or 1, the sample is one of right and wrong answers.
    """
    array = np.asarray(values, dtype=np.float64)
    return Shares(array) if np.isin(array, (0.0, 1.0)).all() else Means(100.0 * array)


def differences(values: RowValues, system: str, form: str | None, name: str) -> dict[str, dict[str, Any]]:
    """Return the differences of a row to the clean queries of its system, and to the encoder on its queries."""
    baselines = {"clean": (system, form, CLEAN), "encoder": (ENCODER.name, form, name)}
    return {
        baseline: _difference(values[key], values[system, form, name])
        for baseline, key in baselines.items()
        if key != (system, form, name) and key in values
    }


def losses_of_forms(values: RowValues, system: str) -> dict[tuple[str | None, str], dict[str, dict[str, Any]]]:
    """Return what each form loses, by form and name of the queries.

    What it loses on a file of queries is over all of these, what it loses of robustness over those that are also clean.
    """
    own = {(form, name): each for (of, form, name), each in values.items() if of == system}
    forms = list(dict.fromkeys(form for form, _ in own))
    if forms == [None]:
        return {}
    found: dict[tuple[str | None, str], dict[str, dict[str, Any]]] = {}
    for name in dict.fromkeys(name for _, name in own):
        noise = None if name == CLEAN else name
        of_file = {(form, noise): own[form, name] for form in forms if (form, name) in own}
        with_clean = of_file | {(form, None): own[form, CLEAN] for form in forms if (form, CLEAN) in own}
        quality, both = _losses(of_file, system), _losses(with_clean, system)
        for form in forms:
            entry = dict(quality.get((form, noise), {}))
            if ROBUSTNESS in (together := both.get((form, noise), {})):
                entry[ROBUSTNESS] = together[ROBUSTNESS]
            if entry:
                found[form, name] = entry
    return found


def _losses(own: Mapping[Version, tuple[Sequence[str], Values]], system: str) -> Mapping[Version, Contrasts]:
    """Return the losses of the versions on the queries that all of them have."""
    shared = set.intersection(*(set(ids) for ids, _ in own.values()))
    if not shared:
        return {}
    kept = [[place for place, query in _places(ids) if query in shared] for ids, _ in own.values()]
    names = next(iter(own.values()))[1]
    samples = {
        metric: retrieval_sample(
            np.stack([found[metric][places] for (_, found), places in zip(own.values(), kept, strict=True)])
        )
        for metric in names
    }
    return losses_of(samples, list(own), seed=SEED, name=f"retrieval/{system}")


def _places(ids: Sequence[str]) -> list[tuple[int, str]]:
    """Return the places of queries with their ids, by id."""
    return sorted(enumerate(ids), key=lambda each: each[1])


def _difference(baseline: tuple[Sequence[str], Values], other: tuple[Sequence[str], Values]) -> dict[str, Any]:
    """Return ``{n, METRIC: {difference, low, high, p}}`` over the n queries that two rows share."""
    place_of = {query: place for place, query in enumerate(baseline[0])}
    pairs = [(place_of[query], place) for place, query in enumerate(other[0]) if query in place_of]
    if not pairs:
        return {"n": 0}
    first, second = np.array(pairs).T
    found: dict[str, Any] = {"n": len(pairs)}
    for metric in other[1]:
        sample = retrieval_sample(np.stack([baseline[1][metric][first], other[1][metric][second]]))
        made = difference([resample(sample, seed=SEED, name=metric)], 1)
        found[metric] = {"difference": made.difference, "low": made.low, "high": made.high, "p": made.p}
    return found
