"""From text to a method's options: the keyword arguments of its objective, with types checked and names suggested."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from holdfast.errors import UserError, did_you_mean
from holdfast.objectives import METHODS, Objective
from holdfast.training.values import fitted


def objective_class(method: str) -> type[Objective]:
    """The objective of a method's command-line name.

    Raises:
        UserError: there is no such method; the nearest name is offered.
    """
    if method not in METHODS:
        raise UserError(f"unknown method {method!r}{did_you_mean(method, METHODS)}; methods: {', '.join(METHODS)}")
    return METHODS[method]


def option_defaults(objective: type[Objective]) -> dict[str, Any]:
    """A method's options and their defaults."""
    parameters = inspect.signature(objective.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def method_options(method: str, preset: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments for a method's objective: its preset, overridden by ``settings``.

    Args:
        method: a method's name.
        preset: one of the method's presets, or None for its defaults.
        settings: option names to values; text is read as YAML ("1e-3", "true", "inf" as the option's type says).

    Raises:
        UserError: an unknown preset or option (the nearest name is offered), or a value that does not fit.
    """
    objective = objective_class(method)
    if preset is not None and preset not in objective.PRESETS:
        known = ", ".join(objective.PRESETS) or "none"
        raise UserError(f"{method} has no preset {preset!r}{did_you_mean(preset, objective.PRESETS)}; presets: {known}")
    options = dict(objective.PRESETS[preset]) if preset else {}
    known_options = option_defaults(objective)
    hints = get_type_hints(objective.__init__)
    for name, value in settings.items():
        if name not in known_options:
            names = ", ".join(known_options)
            raise UserError(f"{method} has no option {name!r}{did_you_mean(name, known_options)}; options: {names}")
        options[name] = _option(name, value, hints[name])
    return options


def split_settings(words: list[str]) -> dict[str, str]:
    """``["gamma=0.1", …]`` as a mapping.

    Raises:
        UserError: a word without "=".
    """
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes name=value, got {word!r}")
        settings[name.strip().replace("-", "_")] = value
    return settings


def _option(name: str, value: Any, hint: Any) -> Any:
    """The value of an option, whose text is read as YAML unless the option takes text."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if isinstance(value, str) and get_origin(hint) is not Literal:
        parsed = _parsed(value)
        value = parsed if str not in kinds or parsed is None else value
    return fitted(f"option {name!r}", value, hint)


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def describe(name: str, objective: type[Objective]) -> dict[str, Any]:
    """What a method is, from its class; the meaning of its options from the class's docstring."""
    meanings = _read_arguments(objective)
    return {
        "name": name,
        "title": objective.TITLE,
        "idea": objective.IDEA,
        "paper": objective.CITATION,
        "cost": objective.COST,
        "options": {
            option: {"default": default, "meaning": meanings.get(option, "")}
            for option, default in option_defaults(objective).items()
        },
        "presets": {preset: dict(values) for preset, values in objective.PRESETS.items()},
        "training": dict(objective.TRAINING),
    }


def _read_arguments(objective: type[Objective]) -> dict[str, str]:
    """The ``Args:`` section of a class's docstring: ``name: meaning``, and the deeper lines that belong to it."""
    _, _, section = (inspect.getdoc(objective) or "").partition("\nArgs:\n")
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if not line.startswith("    "):
            break  # the section ends where the indentation does
        head, colon, rest = line.strip().partition(": ")
        if line[4] != " " and colon:
            name, meanings[head] = head, rest
        elif name:
            meanings[name] += " " + line.strip()
    return meanings
