"""Word-level attacks: goals, substitutes, constraints, recipes, and the engine that runs many attacks in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.attacks.attack_settings import AttackSettings
    from holdfast.attacks.encoder_targets import DriftTarget
    from holdfast.attacks.engine import Engine
    from holdfast.attacks.examples import Attempt, Example
    from holdfast.attacks.metrics import summarise
    from holdfast.attacks.recipes import RECIPES, Recipe
    from holdfast.attacks.recipes.adaptive_typos import AdaptiveTypos
    from holdfast.attacks.recipes.auto import Auto
    from holdfast.attacks.recipes.bae import BAE
    from holdfast.attacks.recipes.bertattack import BERTAttack
    from holdfast.attacks.recipes.evasion import Evasion
    from holdfast.attacks.recipes.geometry import Geometry
    from holdfast.attacks.recipes.pwws import PWWS
    from holdfast.attacks.recipes.textbugger import TextBugger
    from holdfast.attacks.recipes.textfooler import TextFooler
    from holdfast.attacks.recipes.typos import Typos
    from holdfast.attacks.resource_names import LIGHT, PAPER, ResourceNames
    from holdfast.attacks.resources import Resources
    from holdfast.attacks.retrieval_target import RetrievalTarget
    from holdfast.attacks.scored_pair_target import ScoredPairTarget
    from holdfast.attacks.targets import CallableTarget, ClassifierTarget

__all__ = [
    "BAE",
    "LIGHT",
    "PAPER",
    "PWWS",
    "RECIPES",
    "AdaptiveTypos",
    "AttackSettings",
    "Attempt",
    "Auto",
    "BERTAttack",
    "CallableTarget",
    "ClassifierTarget",
    "DriftTarget",
    "Engine",
    "Evasion",
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

__getattr__ = lazy_exports(
    __name__,
    {
        "AttackSettings": "attack_settings",
        "DriftTarget": "encoder_targets",
        "RetrievalTarget": "retrieval_target",
        "ScoredPairTarget": "scored_pair_target",
        "Engine": "engine",
        **dict.fromkeys(("Attempt", "Example"), "examples"),
        "summarise": "metrics",
        **dict.fromkeys(("RECIPES", "Recipe"), "recipes"),
        "AdaptiveTypos": "recipes.adaptive_typos",
        "Auto": "recipes.auto",
        "BAE": "recipes.bae",
        "BERTAttack": "recipes.bertattack",
        "Evasion": "recipes.evasion",
        "Geometry": "recipes.geometry",
        "PWWS": "recipes.pwws",
        "TextBugger": "recipes.textbugger",
        "TextFooler": "recipes.textfooler",
        "Typos": "recipes.typos",
        **dict.fromkeys(("LIGHT", "PAPER", "ResourceNames"), "resource_names"),
        "Resources": "resources",
        **dict.fromkeys(("CallableTarget", "ClassifierTarget"), "targets"),
    },
)
