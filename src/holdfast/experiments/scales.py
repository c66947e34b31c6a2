"""What a scale says of every cell of every table, and what a user says in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from holdfast.errors import UserError, did_you_mean
from holdfast.experiments.definition import Pipeline, merged
from holdfast.experiments.stages import settings_of
from holdfast.values import option_value, split_settings

CHANGED = ("encoder", "baseline", "classifier", "attack", "evaluation")
"""The stages of which a scale says something, and so those whose settings can be changed."""


@dataclass(frozen=True)
class Scale:
    """A scale.

    Attributes:
        says: of each stage.
        model: where encoders start from, if the scale says.
        corpus: what they are trained on, if it says.
        tasks: for each task what holds for the cells on it.
        changes: what of ``says`` a user said.
    """

    says: Pipeline
    model: str | None
    corpus: str | None
    tasks: Mapping[str, Pipeline]
    changes: Pipeline


def read_scale(name: str, changes: Sequence[str] = ()) -> Scale:
    """A scale, changed.

    Args:
        name: one of `holdfast.experiments.definition.SCALES`.
        changes: ``"STAGE.NAME=VALUE"`` each, such as ``"encoder.sentences=6400"``. What a table says for itself
            overrules them, as it overrules the scale.

    Raises:
        UserError: there is no such stage, it has no such setting, or the value does not fit.
    """
    text = (Path(__file__).parent / "scales.yaml").read_text(encoding="utf-8")
    says: Pipeline = dict(yaml.safe_load(text)[name] or {})
    model, corpus, tasks = (says.pop(key, None) for key in ("model", "corpus", "tasks"))
    changed = _changes(changes)
    return Scale(merged(says, changed), model, corpus, tasks or {}, changed)


def _changes(words: Sequence[str]) -> Pipeline:
    found: Pipeline = {}
    for whole, value in split_settings(words).items():
        stage, dot, name = whole.partition(".")
        if not dot or stage not in CHANGED:
            hint = did_you_mean(stage, CHANGED) if dot else ""
            raise UserError(f"--set {whole}: a stage and its setting are needed{hint}, as in encoder.sentences=6400")
        known = settings_of(stage)
        if name not in known:
            raise UserError(f"--set {whole}: {stage} has no setting {name!r}{did_you_mean(name, known)}")
        found.setdefault(stage, {})[name] = option_value(whole, value, known[name])
    return found
