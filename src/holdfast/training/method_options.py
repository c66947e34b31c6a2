"""Parsing of a method's options, the keyword arguments of its objective: checks types and suggests names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from holdfast.errors import UserError, did_you_mean
from holdfast.objectives import METHODS, Objective
from holdfast.option_parsing import documented_arguments, option_value, type_hints
from holdfast.user_classes import is_user_class, load_class


def objective_class(method: str) -> type[Objective]:
    """Return the objective of a method by its command-line name, ``FILE.py:Class`` or ``package.module:Class``.

    Raises:
        UserError: there is no such method (the message suggests the nearest name), or the class cannot be loaded.
    """
    if is_user_class(method):
        texts = ("TITLE", "IDEA", "CITATION")
        return load_class(method, Objective, noun="objective", texts=texts)  # type: ignore[type-abstract]
    if method not in METHODS:
        raise UserError(f"unknown method {method!r}{did_you_mean(method, METHODS)}; methods: {', '.join(METHODS)}")
    return METHODS[method]


def option_defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the options of a class, such as a method's objective, and their defaults."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def method_options(method: str, preset: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for a method's objective: its preset, overridden by ``settings``.

    Raises:
        UserError: unknown preset or option (the message suggests the nearest name), or a value of a wrong type.
    """
    objective = objective_class(method)
    if preset is not None and preset not in objective.PRESETS:
        known = ", ".join(objective.PRESETS) or "none"
        raise UserError(f"{method} has no preset {preset!r}{did_you_mean(preset, objective.PRESETS)}; presets: {known}")
    return {**(objective.PRESETS[preset] if preset else {}), **given_options(method, objective, settings)}


def with_dropout(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a method, with the encoder's dropout turned on, where it is off by default.

    Raises:
        UserError: the options turn it off.
    """
    name = objective_class(method).DROPOUT_OPTION
    if name is None or options.get(name):
        return dict(options)
    if name in options:
        raise UserError(f"{method}: {name}=false turns off the dropout that is given: leave out one of them")
    return {**options, name: True}


def require_dropout(method: str, options: Mapping[str, Any], reason: str) -> None:
    """Refuse options of a method with which the encoder's dropout is off; ``reason`` is why it must be on.

    Raises:
        UserError: it is off.
    """
    name = objective_class(method).DROPOUT_OPTION
    if name is not None and not options.get(name):
        raise UserError(f"{method} trains without dropout: {reason} (--set {name}=true)")


def given_options(owner: str, kind: type[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for a class whose options are its keyword-only arguments.

    ``owner`` names it in messages. Text is parsed as YAML, according to the option's type ("1e-3", "true", "inf").

    Raises:
        UserError: unknown option (the message suggests the nearest name), or a value of a wrong type.
    """
    known = option_defaults(kind)
    hints = type_hints(kind.__init__)
    for name in settings:
        if name not in known:
            names = ", ".join(known) or "none"
            raise UserError(f"{owner} has no option {name!r}{did_you_mean(name, known)}; options: {names}")
    return {name: option_value(name, value, hints[name]) for name, value in settings.items()}


def describe(name: str, objective: type[Objective]) -> dict[str, Any]:
    """Return the description of a method: class attributes, presets, and options explained by its docstring."""
    meanings = documented_arguments(objective)
    return {
        "name": name,
        "title": objective.TITLE,
        "idea": objective.IDEA,
        "paper": objective.CITATION,
        "cost": objective.COST,
        "own_idea": objective.OWN_IDEA,
        "idea_gradient_share": objective.IDEA_SHARE,
        "options": {
            option: {"default": default, "meaning": meanings.get(option, "")}
            for option, default in option_defaults(objective).items()
        },
        "presets": {preset: dict(values) for preset, values in objective.PRESETS.items()},
        "training": dict(objective.TRAINING),
    }
