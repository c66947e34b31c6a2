"""Checks of the pipelines in a table that need neither a model nor data; `stages` makes the other checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.experiments.stage_settings import settings_of
from holdfast.experiments.table_definition import two_lengths
from holdfast.experiments.yaml_table import Place, TableFile, shown

STAGES = ("encoder", "classifier", "attack", "evaluation", "transfer_to", "distances_in", "inspection")
"""The stages of a cell's pipeline: an encoder, a classifier on it, an attack; or an evaluation of the encoder."""

SCALED_STAGES = ("encoder", "baseline", "classifier", "attack", "evaluation")
"""The stages that a scale has settings for; only these settings can be changed."""

_CELL_KEYS = (*STAGES, "measure", "digits", "not_run")
MOST_DIGITS = 9

_OTHER_MODELS = {
    "transfer_to": ("encoder", "classifier"),
    "distances_in": ("encoder", "classifier", "outcome", "pairs"),
}
"""The stages that take another encoder or classifier, and all keys that they accept."""

_NESTED = {
    "encoder": ("from", "teacher"),
    "from": ("from", "teacher"),
    "teacher": ("from", "teacher"),
    "classifier": ("adversarial_texts",),
    "transfer_to": ("encoder", "classifier"),
    "distances_in": ("encoder", "classifier"),
    "inspection": ("options",),
}
"""The keys of a stage whose values are stages or options themselves."""

_CANCELLABLE = ("adversarial_texts",)
"""Keys that a later part of the pipeline can cancel with null."""

_TEXTS = {
    "similarity": (list, "pairs of texts"),
    "masks": (str, "single texts"),
    "hard-positives": (str, "single texts"),
}
"""The texts that an inspection of each kind takes."""


def read_pipeline(file: TableFile, at: Place) -> dict[str, Any]:
    """Return the part of a pipeline that a row, a column, a cell or ``shared`` gives.

    Raises:
        UserError: it has a key or value that no cell may have (with ``file:line``).
    """
    pipeline = file.mapping(at)
    file.check_keys(at, _CELL_KEYS)
    for stage in STAGES:
        if stage in pipeline:
            _check_stage(file, (*at, stage), stage)
    for key in ("measure", "not_run"):
        if key in pipeline:
            file.text((*at, key), needed=True)
    if "digits" in pipeline:
        file.whole_number((*at, "digits"), 0, MOST_DIGITS)
    return pipeline


def check_settings(file: TableFile, at: Place) -> None:
    """Check the settings of stages that a table has in place of its scale's.

    Raises:
        UserError: a scale has no settings for a stage, or the stage has no such setting (with ``file:line``).
    """
    file.check_keys(at, SCALED_STAGES, "stage")
    for stage in file.mapping(at):
        file.mapping((*at, stage), needed=True)
        file.check_keys((*at, stage), settings_of(stage), "setting")
        _refuse_two_lengths(file, (*at, stage))


def _refuse_two_lengths(file: TableFile, at: Place) -> None:
    if both := two_lengths(file.mapping(at)):
        raise file.wrong((*at, both[1]), f"{both[0]!r} and {both[1]!r} exclude each other: both are its length")


def _check_stage(file: TableFile, at: Place, stage: str) -> None:
    """Check the keys of one stage, and of the stages within it."""
    settings = file.mapping(at, needed=True)
    for key in _NESTED.get(stage, ()):
        if key in settings and not (settings[key] is None and key in _CANCELLABLE):
            _check_stage(file, (*at, key), key)
    if stage in _OTHER_MODELS:
        file.check_keys(at, _OTHER_MODELS[stage])
    _refuse_two_lengths(file, at)
    if "pairs" in settings and stage == "distances_in":
        file.whole_number((*at, "pairs"), 2)
    if "texts" in settings and stage == "inspection":
        _check_texts(file, (*at, "texts"))
    if not isinstance(settings.get("tasks", ""), str) and stage == "evaluation":
        raise file.wrong((*at, "tasks"), f"'tasks' takes names joined by commas, not {shown(settings['tasks'])}")


def _check_texts(file: TableFile, at: Place) -> None:
    """Check that the texts of an inspection are texts or pairs; `texts_wrong` checks them against the kind."""
    for place, text in enumerate(file.entries(at, "texts, or of pairs of texts")):
        pair = isinstance(text, list) and len(text) == 2
        if not all(isinstance(part, str) for part in (text if pair else (text,))):
            raise file.wrong((*at, place), f"'texts' takes texts or pairs of texts, and {text!r} is neither")


def texts_wrong(inspection: Mapping[str, Any]) -> str:
    """Return why the texts of an inspection do not fit its kind; "" if they fit, or if the kind is not known."""
    kind = inspection.get("kind")
    if not isinstance(kind, str) or kind not in _TEXTS:
        return ""
    wanted, described = _TEXTS[kind]
    fits = all(isinstance(text, wanted) for text in inspection.get("texts") or ())
    return "" if fits else f"an inspection of the kind {kind!r} takes {described}"
