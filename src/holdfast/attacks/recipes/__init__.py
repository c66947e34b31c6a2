"""The attack recipes, one per file. A new file in this folder is found without an entry in a list."""

from __future__ import annotations

import importlib
import pkgutil

from holdfast.attacks.recipes.recipe import Recipe


def _recipes() -> dict[str, type[Recipe]]:
    """Return the recipes in the files of this folder, by name."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {cls.NAME: cls for cls in classes if issubclass(cls, Recipe) and "NAME" in vars(cls)}


RECIPES = _recipes()
"""Recipe classes by their names on the command line."""

__all__ = ["RECIPES", "Recipe"]
