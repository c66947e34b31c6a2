"""The attack recipes, one per file."""

from __future__ import annotations

from holdfast.attacks.recipes.bae import BAE
from holdfast.attacks.recipes.bertattack import BERTAttack
from holdfast.attacks.recipes.geometry import Geometry
from holdfast.attacks.recipes.pwws import PWWS
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.recipes.textbugger import TextBugger
from holdfast.attacks.recipes.textfooler import TextFooler
from holdfast.attacks.recipes.typos import Typos

RECIPES: dict[str, type[Recipe]] = {
    recipe.NAME: recipe for recipe in (TextFooler, TextBugger, PWWS, BAE, BERTAttack, Geometry, Typos)
}
"""Recipe classes by their names on the command line."""

__all__ = ["BAE", "PWWS", "RECIPES", "BERTAttack", "Geometry", "Recipe", "TextBugger", "TextFooler", "Typos"]
