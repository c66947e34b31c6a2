"""From text to a method's options: the keyword arguments of its objective, with types checked and names suggested."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from holdfast.errors import UserError, did_you_mean
from holdfast.objectives import METHODS, Objective


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
        options[name] = _fitted(name, value, hints[name])
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


def _fitted(name: str, value: Any, hint: Any) -> Any:
    if get_origin(hint) is Literal and str(value) in get_args(hint):
        return str(value)
    if isinstance(value, str):
        value = _parsed(value)
    for kind in _kinds(hint):
        if kind is type(None) and value is None:
            return None
        if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if kind in (int, bool) and type(value) is kind:
            return value
    raise UserError(f"option {name!r} does not take {value!r}; it takes {_described(hint)}")


def _parsed(text: str) -> Any:
    try:
        return float(text) if "e" in text.lower() else yaml.safe_load(text)  # YAML reads 1e-3 as text
    except (ValueError, yaml.YAMLError):
        return yaml.safe_load(text) if text.isidentifier() else text


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _described(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    names = {float: "a number", int: "a whole number", bool: "true or false", type(None): "null"}
    return " or ".join(names.get(kind, str(kind)) for kind in _kinds(hint))


def describe(name: str, objective: type[Objective]) -> dict[str, Any]:
    """What a method is, from its class; the meaning of its options from the class's docstring."""
    meanings = _read_arguments(objective)
    return {
        "name": name,
        "title": objective.TITLE,
        "idea": objective.IDEA,
        "paper": objective.CITATION,
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
