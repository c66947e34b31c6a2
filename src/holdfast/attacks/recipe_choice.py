"""From the names and constants that the user gives to recipes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.attacks.recipes import RECIPES, Recipe
from holdfast.attacks.recipes.auto import Auto
from holdfast.attacks.resource_names import require_known
from holdfast.errors import UserError, did_you_mean
from holdfast.option_parsing import documented_arguments, option_value, type_hints
from holdfast.user_classes import is_user_class, load_class, source_sha256


def recipe_class(name: str) -> type[Recipe]:
    """Return the recipe of a name, ``FILE.py:Class`` or ``package.module:Class``.

    Raises:
        UserError: there is no such recipe (the message suggests the closest name), or the class is incomplete.
    """
    if is_user_class(name):
        return _user_recipe(name)
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}{did_you_mean(name, RECIPES)}; recipes: {', '.join(RECIPES)}")
    return RECIPES[name]


def _user_recipe(spec: str) -> type[Recipe]:
    recipe = load_class(spec, Recipe, noun="recipe", texts=("NAME", "IDEA", "PAPER"))  # type: ignore[type-abstract]
    if not re.fullmatch(r"[\w-]+", recipe.NAME):
        raise UserError(f"{spec}: NAME {recipe.NAME!r} may hold letters, digits, - and _ only")
    if RECIPES.get(recipe.NAME, recipe) is not recipe:
        raise UserError(f"{spec}: NAME {recipe.NAME!r} is the name of a published recipe: give it another")
    if "__dataclass_fields__" not in vars(recipe):
        raise UserError(f"{spec} is no dataclass, so its constants are not known: decorate it, @dataclass(frozen=True)")
    try:
        published = recipe()
        json.dumps(published.constants())
    except (TypeError, ValueError) as error:
        raise UserError(f"{spec} with its defaults: {error}") from error
    require_known(published.needs(), spec)
    return recipe


def make_recipes(names: Sequence[str], constants: Mapping[str, Any]) -> list[Recipe]:
    """Create the recipes of a run, with changed constants.

    Args:
        names: names of recipes, ``FILE.py:Class`` or ``package.module:Class``.
        constants: values by ``constant``, for all recipes that have it, or by ``recipe.constant``, where the recipe is
            named by its name or its class.

    Raises:
        UserError: an unknown recipe or constant (the message suggests the closest name), or an invalid value.
    """
    recipes = _classes(names)
    if Auto.NAME in recipes:
        return [_ensemble([name for name in names if name != Auto.NAME], constants)]
    return with_constants(recipes, constants)


def _classes(names: Sequence[str]) -> dict[str, type[Recipe]]:
    recipes: dict[str, type[Recipe]] = {}
    for name in names:
        recipe = recipe_class(name)
        if recipes.setdefault(recipe.NAME, recipe) is not recipe:
            raise UserError(f"{name}: another recipe of this run has the NAME {recipe.NAME!r}: change one of them")
    return recipes


def _ensemble(added: Sequence[str], constants: Mapping[str, Any]) -> Auto:
    """Create the ensemble of all published recipes and those that the user adds; all have the budget of the ensemble.

    `holdfast.attacks.ensemble` leaves out what does not fit the model.
    """
    shared, own = {}, {}
    for key, value in constants.items():
        owner, _, constant = key.rpartition(".")
        if constant in Auto.constant_names() and owner not in ("", Auto.NAME, Auto.__name__):
            raise UserError(f"{key}: with --recipes auto all recipes have one budget: set {constant} alone")
        if constant in Auto.constant_names():
            shared[constant] = option_value(f"{Auto.NAME}.{constant}", value, type_hints(Auto)[constant])
        else:
            own[key] = value
    names = [*(name for name in RECIPES if name != Auto.NAME), *added]
    ensemble = _make(Auto, {**shared, "parts": tuple(with_constants(_classes(names), own))})
    assert isinstance(ensemble, Auto)
    return ensemble


def with_constants(recipes: Mapping[str, type[Any]], constants: Mapping[str, Any]) -> list[Any]:
    """Create recipes of these names and classes with changed constants, as `make_recipes` does.

    Raises:
        UserError: an unknown constant (the message suggests the closest name), or an invalid value.
    """
    changed: dict[str, dict[str, Any]] = {name: {} for name in recipes}
    for key, value in constants.items():
        constant = key.rpartition(".")[2]
        for name in _owners(key, recipes):
            recipe: Any = recipes[name]  # mypy holds a class for unhashable
            changed[name][constant] = option_value(f"{name}.{constant}", value, type_hints(recipe)[constant])
    return [_make(recipe, changed[name]) for name, recipe in recipes.items()]


def _owners(key: str, recipes: Mapping[str, type[Any]]) -> list[str]:
    """Return the names of the recipes whose constant ``key`` sets."""
    owner, dot, constant = key.rpartition(".")
    # In options "-" is "_".
    named = [name for name, recipe in recipes.items() if owner in (name, name.replace("-", "_"), recipe.__name__)]
    if dot and not named:
        raise UserError(f"{key}: {owner} is not among the recipes of this run ({', '.join(recipes)})")
    candidates = named if dot else list(recipes)
    having = [name for name in candidates if constant in recipes[name].constant_names()]
    if not having:
        known = [each for name in candidates for each in recipes[name].constant_names()]
        raise UserError(f"no constant {constant!r}{did_you_mean(constant, known)}; constants: {', '.join(known)}")
    return having


def _make(recipe: type[Any], constants: Mapping[str, Any]) -> Any:
    try:
        return recipe(**constants)
    except ValueError as error:
        raise UserError(f"{recipe.NAME}: {error}") from error


def recipe_record(recipe: Recipe) -> dict[str, Any]:
    """Return the record of a recipe for the result; that of a user-defined one holds the hash of its file."""
    record = recipe.record()
    if isinstance(recipe, Auto):
        record["parts"] = {part.NAME: recipe_record(part) for part in recipe.recipes()}
        record["left_out"] = dict(recipe.left_out)
    if RECIPES.get(recipe.NAME) is type(recipe):
        return record
    return {**record, "class": type(recipe).__name__, "sha256": source_sha256(type(recipe))}


def describe(recipe: type[Any]) -> dict[str, Any]:
    """Return the description of a recipe: its texts, the resources it needs, and its constants with their meanings."""
    documented = [cls for cls in reversed(recipe.__mro__) if "__dataclass_fields__" in vars(cls)]
    meanings = {name: text for cls in documented for name, text in documented_arguments(cls).items()}
    published = recipe()
    return {
        "name": recipe.NAME,
        "idea": recipe.IDEA,
        "paper": recipe.PAPER,
        "needs": list(published.needs()),
        "constants": {
            key: {"value": value, "meaning": meanings.get(key, "")} for key, value in published.constants().items()
        },
    }
