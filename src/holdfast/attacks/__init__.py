"""Word-level attacks: goals, substitutes, constraints, recipes, and the engine that runs many attacks in parallel."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.attacks.encoder_targets import DriftTarget, RetrievalTarget, ScoredPairTarget
    from holdfast.attacks.engine import Engine
    from holdfast.attacks.examples import Attempt, Example
    from holdfast.attacks.metrics import summarise
    from holdfast.attacks.recipes import RECIPES, Recipe
    from holdfast.attacks.recipes.bae import BAE
    from holdfast.attacks.recipes.bertattack import BERTAttack
    from holdfast.attacks.recipes.geometry import Geometry
    from holdfast.attacks.recipes.pwws import PWWS
    from holdfast.attacks.recipes.textbugger import TextBugger
    from holdfast.attacks.recipes.textfooler import TextFooler
    from holdfast.attacks.recipes.typos import Typos
    from holdfast.attacks.resources import LIGHT, PAPER, ResourceNames, Resources
    from holdfast.attacks.targets import CallableTarget, ClassifierTarget

__all__ = [
    "BAE",
    "LIGHT",
    "PAPER",
    "PWWS",
    "RECIPES",
    "Attempt",
    "BERTAttack",
    "CallableTarget",
    "ClassifierTarget",
    "DriftTarget",
    "Engine",
    "Example",
    "Geometry",
    "Recipe",
    "ResourceNames",
    "Resources",
    "RetrievalTarget",
    "ScoredPairTarget",
    "TextBugger",
    "TextFooler",
    "Typos",
    "summarise",
]

_HOMES = {
    "DriftTarget": "holdfast.attacks.encoder_targets",
    "RetrievalTarget": "holdfast.attacks.encoder_targets",
    "ScoredPairTarget": "holdfast.attacks.encoder_targets",
    "Engine": "holdfast.attacks.engine",
    "Attempt": "holdfast.attacks.examples",
    "Example": "holdfast.attacks.examples",
    "summarise": "holdfast.attacks.metrics",
    "BAE": "holdfast.attacks.recipes.bae",
    "PWWS": "holdfast.attacks.recipes.pwws",
    "RECIPES": "holdfast.attacks.recipes",
    "BERTAttack": "holdfast.attacks.recipes.bertattack",
    "Geometry": "holdfast.attacks.recipes.geometry",
    "Recipe": "holdfast.attacks.recipes",
    "TextBugger": "holdfast.attacks.recipes.textbugger",
    "TextFooler": "holdfast.attacks.recipes.textfooler",
    "Typos": "holdfast.attacks.recipes.typos",
    "LIGHT": "holdfast.attacks.resources",
    "PAPER": "holdfast.attacks.resources",
    "ResourceNames": "holdfast.attacks.resources",
    "Resources": "holdfast.attacks.resources",
    "CallableTarget": "holdfast.attacks.targets",
    "ClassifierTarget": "holdfast.attacks.targets",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access, so that a name from a light module does not load the heavy ones."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'holdfast.attacks' has no attribute {name!r}")
