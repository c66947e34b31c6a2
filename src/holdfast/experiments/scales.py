"""Scales: settings for every cell of every table, and the user's changes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from holdfast.errors import UserError, did_you_mean
from holdfast.experiments.cell_schema import SCALED_STAGES
from holdfast.experiments.definition import Pipeline, merged
from holdfast.experiments.stage_settings import settings_of
from holdfast.experiments.table_definition import two_lengths
from holdfast.option_parsing import option_value, split_settings


@dataclass(frozen=True)
class Scale:
    """A scale.

    Attributes:
        stages: settings of each stage.
        model: the model that encoders start from, if the scale sets it.
        corpus: their training corpus, if the scale sets it.
        tasks: for each task, the settings of the cells on it.
        changes: the part of ``stages`` that the user set.
    """

    stages: Pipeline
    model: str | None
    corpus: str | None
    tasks: Mapping[str, Pipeline]
    changes: Pipeline


def read_scale(name: str, changes: Sequence[str] = (), of_table: Mapping[str, Any] | None = None) -> Scale:
    """Read a scale, and apply a table's settings and then the user's changes to it.

    Args:
        name: one of `holdfast.experiments.definition.SCALES`.
        changes: ``"STAGE.NAME=VALUE"`` each, such as ``"encoder.sentences=6400"``. The settings of a
            table's rows and columns override them, as they override the scale.
        of_table: the `Definition.settings` of the table.

    Raises:
        UserError: there is no such stage or setting, or the value does not fit.
    """
    text = (Path(__file__).parent / "scales.yaml").read_text(encoding="utf-8")
    stages: Pipeline = dict(yaml.safe_load(text)[name] or {})
    model, corpus, tasks = (stages.pop(key, None) for key in ("model", "corpus", "tasks"))
    changed = _changes(changes)
    return Scale(merged(stages, of_table or {}, changed), model, corpus, tasks or {}, changed)


def _changes(words: Sequence[str]) -> Pipeline:
    found: Pipeline = {}
    for whole, value in split_settings(words).items():
        stage, dot, name = whole.partition(".")
        if not dot or stage not in SCALED_STAGES:
            hint = did_you_mean(stage, SCALED_STAGES) if dot else ""
            raise UserError(f"--set {whole}: a stage and its setting are needed{hint}, as in encoder.sentences=6400")
        known = settings_of(stage)
        if name not in known:
            raise UserError(f"--set {whole}: {stage} has no setting {name!r}{did_you_mean(name, known)}")
        found.setdefault(stage, {})[name] = option_value(whole, value, known[name])
    for stage, settings in found.items():
        if both := two_lengths(settings):
            raise UserError(f"--set {stage}.{both[0]} and {stage}.{both[1]} exclude each other: both are its length")
    return found
