"""The configuration of a run, from a YAML file and the command line; errors name file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.option_parsing import fitted, read_yaml, split_settings
from holdfast.training.train_config import TrainConfig


def run_config(file: Path | None, given: Mapping[str, Any], settings: list[str]) -> TrainConfig:
    """Return the settings of a run; the command line takes precedence over the configuration file."""
    hints = get_type_hints(TrainConfig)
    values: dict[str, Any] = {}
    if file is not None:
        for key, value, where in config_entries(file, hints):
            values[key] = fitted(f"{where}: {key}", value, hints[key], key)
        if values.get("method", given["method"]) != given["method"]:
            raise UserError(f"{file} is for the method {values['method']}, the command line says {given['method']}")
    for key, value in given.items():
        values[key] = fitted(f"--{key.replace('_', '-')}", value, hints[key], key)
    if "max_steps" in given and "epochs" in given:
        raise UserError("--max-steps and --epochs exclude each other: give one of them")
    if "epochs" in given:
        values.pop("max_steps", None)  # else max_steps of the file would override --epochs
    if missing := [key for key in ("model", "corpus", "output") if key not in values]:
        raise UserError(f"missing: --{missing[0]} (on the command line or in --config)")
    options = {str(key).replace("-", "_"): value for key, value in values.pop("options", {}).items()}
    _check_loggers(values.get("report_to", ()))
    return TrainConfig(**values, options={**options, **split_settings(settings)})


def config_entries(file: Path, known: Iterable[str]) -> Iterator[tuple[str, Any, str]]:
    """Yield the key, value and ``file:line`` of each entry of a YAML mapping; keys must be in ``known``."""
    node, values = read_yaml(file, "configuration")
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{file}:{node.start_mark.line + 1}: a configuration is a list of 'key: value' lines")
    known = list(known)
    seen: dict[str, int] = {}
    for name_node, _ in node.value:
        name, line = str(name_node.value), name_node.start_mark.line + 1
        key = name.replace("-", "_")
        if key not in known:
            raise UserError(f"{file}:{line}: unknown key {name!r}{did_you_mean(key, known)}")
        if key in seen:
            raise UserError(f"{file}:{line}: {name!r} is given twice, first in line {seen[key]}")
        seen[key] = line
        yield key, values[name], f"{file}:{line}"


def _check_loggers(names: Iterable[str]) -> None:
    """Refuse a logger that the trainer does not know or that is not installed, before the model is loaded."""
    from transformers.integrations.integration_utils import (
        INTEGRATION_TO_CALLBACK,
        get_available_reporting_integrations,
    )

    for name in names:
        one_of("--report-to", name, tuple(INTEGRATION_TO_CALLBACK))
        if name not in get_available_reporting_integrations():
            raise UserError(f"--report-to {name}: {name} is not installed: pip install {name.replace('_', '-')}")
