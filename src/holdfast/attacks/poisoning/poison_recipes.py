"""The recipes of ``--goal poison``: from the names and constants that the user gives to recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.poisoning.hotflip import HotFlip
from holdfast.attacks.poisoning.poison_recipe import PoisonRecipe
from holdfast.attacks.poisoning.proposed_words import MaskedLMWords, NaturalText
from holdfast.attacks.recipe_choice import with_constants
from holdfast.errors import UserError, did_you_mean

POISON_RECIPES: Mapping[str, type[PoisonRecipe]] = {
    recipe.NAME: recipe for recipe in (HotFlip, MaskedLMWords, NaturalText)
}
"""Recipe classes by their names on the command line."""


def poison_recipes(settings: AttackSettings) -> list[PoisonRecipe]:
    """Create the recipes of a run: those of the settings, or all if the settings name the default of other goals.

    Raises:
        UserError: an unknown recipe or constant, or an invalid value.
    """
    names: Sequence[str] = settings.recipes
    if tuple(names) == tuple(AttackSettings.recipes):
        names = tuple(POISON_RECIPES)
    for name in names:
        if name not in POISON_RECIPES:
            raise UserError(
                f"{name!r} makes no passages{did_you_mean(name, POISON_RECIPES)}; recipes of --goal poison: "
                f"{', '.join(POISON_RECIPES)}"
            )
    made: list[Any] = with_constants({name: POISON_RECIPES[name] for name in names}, settings.constants)
    return made
