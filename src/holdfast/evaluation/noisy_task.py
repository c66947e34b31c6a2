"""Tasks measured on noisy texts: second sentences of pairs, test texts of a transfer task, queries of a collection."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.data.beir import CLEAN, Collection
from holdfast.data.registry import Labelled
from holdfast.edits.noise import Noise, needs_english, noisy
from holdfast.edits.text_language import language_of
from holdfast.errors import emit_notice
from holdfast.evaluation.sts import StsTask
from holdfast.evaluation.transfer import TransferTask
from holdfast.evaluation.vectors import ExtendedTask, LoadedTask

SEED = 0
"""The seed of the noise: every model gets the same."""


def noisy_row(row: dict[str, Any], noise: Noise) -> dict[str, Any]:
    """Return the row of results: ``noise`` is ``KIND=STRENGTH``, ``split`` ``SPLIT KIND=STRENGTH``."""
    return {**row, "split": f"{row['split']} {noise}", "noise": str(noise)}


def with_noise(task: LoadedTask, noise: Noise) -> ExtendedTask | None:
    """Return a task with noise in its texts and its row; None for a task without texts to change (``space``).

    Of a pair of sentences the second one changes, as a mistyped query meets a clean text. Of a transfer task only the
    texts change whose classes are predicted: the regression is fitted and its penalty chosen on clean texts.
    """
    extend = functools.partial(noisy_row, noise=noise)
    if isinstance(task, StsTask):
        pairs = replace(task.pairs, sentences2=_noisy(task.pairs.sentences2, noise, task.name))
        return ExtendedTask(StsTask(pairs), extend)
    if isinstance(task, TransferTask):
        return ExtendedTask(replace(task, tested=_noisy_part(task.clean_tested, noise, task.name)), extend)
    return None


def with_noisy_queries(collection: Collection, noises: Sequence[Noise]) -> Collection:
    """Return a collection whose clean queries are also there with each noise, as ``queries KIND=STRENGTH``."""
    clean = collection.clean
    copies = [
        replace(clean, name=f"{CLEAN} {noise}", texts=_noisy(clean.texts, noise, collection.name), noise=str(noise))
        for noise in noises
    ]
    return replace(collection, queries=[*collection.queries, *copies])


def _noisy_part(part: Labelled, noise: Noise, task: str) -> Labelled:
    second = None if part.sentences2 is None else _noisy(part.sentences2, noise, task)
    return replace(part, sentences1=_noisy(part.sentences1, noise, task), sentences2=second)


def _noisy(texts: Sequence[str], noise: Noise, task: str) -> list[str]:
    """Return noisy texts of a task; emit a notice if the noise is made for English and the texts are not English."""
    if needs_english(noise.kind):
        language = language_of(texts, None)
        if not language.is_english:
            emit_notice(
                f"{task}: the texts seem to be in {language.code} (by {language.source}), and the noise {noise.kind} "
                "is made for English: if they are, its scores say nothing"
            )
    return noisy(texts, noise.kind, noise.strength, SEED, misspellings=noise.misspellings)
