"""The settings that a table can give to each stage of a cell, and those that the cell's record holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.resource_names import RESOURCES
from holdfast.baselines.baseline_settings import BaselineSettings
from holdfast.classifiers.finetune_settings import FinetuneSettings
from holdfast.endpoint_options import EndpointOptions
from holdfast.errors import UserError, did_you_mean
from holdfast.number_ranges import in_range
from holdfast.option_parsing import fitted, type_hints
from holdfast.text_prompts import RolePromptOptions
from holdfast.training.train_config import TrainConfig

_PROMPTS = tuple(each.name for each in dataclasses.fields(RolePromptOptions))
"""No setting of a table: the papers' models have no prompts."""
_NOT_BASELINE = ("name", "model", "vectors", "corpus", "output", "data", "seed", *_PROMPTS)
_NOT_ENCODER = (
    *("method", "model", "corpus", "output", "data", "seed", "report_to", "report_sts", "save_steps"),
    *("keep_checkpoints", "plan", "plan_memory", *_PROMPTS),
)
_NOT_CLASSIFIER = ("model", "output", "data", "seed", "save_steps", "adversarial_texts", "label_map", *_PROMPTS)
_NOT_ATTACK = (
    *(
        "model",
        "recipes",
        "texts",
        "search",
        "queries",
        "passages",
        "data",
        "output",
        "seed",
        "side_by_side",
        "call_batch",
        "retries",
        "processes",
    ),
    *("device", "estimate", "label_map", "resources", *RESOURCES, *_PROMPTS),
    # The forms of a model in use: a table attacks its own cells.
    *("backend", "search_backend", "form", *(option.name for option in dataclasses.fields(EndpointOptions))),
)
_SETTINGS_CLASSES: Mapping[str, tuple[type, Sequence[str]]] = {
    "encoder": (TrainConfig, _NOT_ENCODER),
    "baseline": (BaselineSettings, _NOT_BASELINE),
    "classifier": (FinetuneSettings, _NOT_CLASSIFIER),
    "attack": (AttackSettings, _NOT_ATTACK),
}
"""The settings class of a stage, and its fields that a table cannot set."""
_FURTHER_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "encoder": {"sentences": int, "evaluations": int},
    "evaluation": {"limit": int, "pooling": str, "text": str},
}


_RECORDED_ONLY = {"encoder": ("vectors",)}
"""Settings that no table can give, a folder on one machine, and that are in the records of cells all the same."""


def settings_of(stage: str) -> dict[str, Any]:
    """Return the names and types of the settings of a stage or a baseline."""
    found: dict[str, Any] = {}
    if stage in _SETTINGS_CLASSES:
        kind, excluded = _SETTINGS_CLASSES[stage]
        hints = type_hints(kind)
        excluded = (*excluded, *_RECORDED_ONLY.get(stage, ()))
        found = {each.name: hints[each.name] for each in dataclasses.fields(kind) if each.name not in excluded}
    return {**found, **_FURTHER_SETTINGS.get(stage, {})}


def recorded(settings: Any, stage: str) -> dict[str, Any]:
    """Return the settings of a stage that a table can give, from an object of the stage's settings class."""
    excluded = _SETTINGS_CLASSES[stage][1]
    return {name: value for name, value in vars(settings).items() if name not in excluded}


def taken_count(given: dict[str, Any], name: str) -> int | None:
    """Remove a count from the settings of an encoder, check its range, and return it."""
    value: int | None = given.pop(name, None)
    if value is not None:
        in_range(name, value, f"encoder: {name}")
    return value


def fitted_settings(spec: Mapping[str, Any], stage: str, *, named_as: str | None = None) -> dict[str, Any]:
    """Return the settings of a stage, checked against the settings class of its command."""
    hints, where = settings_of(stage), named_as or stage
    check_names(spec, stage, named_as=named_as)
    return {name: fitted(f"{where}: {name}", value, hints[name], name) for name, value in spec.items()}


def check_names(spec: Iterable[str], stage: str, further: Sequence[str] = (), *, named_as: str | None = None) -> None:
    """Refuse a key that is no setting of a stage that a table can give, and none of ``further``."""
    known = (*settings_of(stage), *further)
    for name in spec:
        if name not in known:
            raise UserError(f"{named_as or stage}: unknown key {name!r}{did_you_mean(name, known)}")
