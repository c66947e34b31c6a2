"""The ensemble `auto` within a run: its recipes fitted to the model, what is said about them, and who broke what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.attacks.examples import Attempt
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.recipes.auto import Auto
from holdfast.attacks.resource_names import TRAINING_EDITS
from holdfast.attacks.targets import Target
from holdfast.attacks.training_edits import training_record

RECIPES_TRIED = 3
"""About the attacks whose queries an ensemble makes for a text: most are broken by one of the first recipes."""
NO_GRADIENTS = "the model gives no gradients in this form"


def for_folder(recipes: Sequence[Recipe], folder: Path | None) -> list[Recipe]:
    """Return the recipes; ensembles attack by the training edits only where the model's folder tells them."""
    hardened = folder is not None and training_record(folder) is not None
    return [recipe if hardened else _without(recipe, lambda part: TRAINING_EDITS in part.NEEDS) for recipe in recipes]


def for_target(recipes: Sequence[Recipe], target: Target) -> list[Recipe]:
    """Return the recipes; those of ensembles that need gradients are left out, and recorded, where there are none."""
    if target.has_gradients:
        return list(recipes)
    return [_without(recipe, lambda part: part.GRADIENTS, NO_GRADIENTS) for recipe in recipes]


def _without(recipe: Recipe, excluded: Any, reason: str | None = None) -> Recipe:
    if not isinstance(recipe, Auto):
        return recipe
    left = tuple((part.NAME, reason) for part in recipe.recipes() if reason is not None and excluded(part))
    kept = tuple(part for part in recipe.recipes() if not excluded(part))
    return replace(recipe, parts=kept, left_out=(*recipe.left_out, *left))


def about_ensembles(recipes: Sequence[Recipe]) -> Iterator[str]:
    """Yield messages about the ensembles of a run, to be shown before the attack."""
    for recipe in recipes:
        if isinstance(recipe, Auto):
            parts = recipe.recipes()
            names = ", ".join(part.NAME for part in parts)
            yield f"auto: {names}; each may change {100 * recipe.max_share:g} % of the words"
            for name, reason in recipe.left_out:
                yield f"auto: {name} is left out: {reason}"
            if reads_training([recipe]):
                yield "auto: the model is hardened: adaptive-typos avoids what it was trained on"


def reads_training(recipes: Sequence[Recipe]) -> bool:
    """Return True if a recipe, or a part of an ensemble, attacks by what the model was trained on."""
    parts = [part for recipe in recipes for part in (recipe.recipes() if isinstance(recipe, Auto) else (recipe,))]
    return any(TRAINING_EDITS in part.NEEDS for part in parts)


def attacks_per_text(recipes: Sequence[Recipe]) -> int:
    """Return how many attacks on a text the recipes are, about, for an estimate of the work."""
    return sum(RECIPES_TRIED if isinstance(recipe, Auto) else 1 for recipe in recipes)


def won_by(attempts: Sequence[Attempt]) -> Mapping[str, int]:
    """Count the broken texts by the recipes that broke them, the most first; several are joined by " + "."""
    counts = Counter(
        " + ".join(dict.fromkeys(attempt.changed_by))
        for attempt in attempts
        if attempt.outcome == "succeeded" and attempt.changed_by
    )
    return dict(counts.most_common())
