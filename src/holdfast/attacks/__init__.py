"""Word-level attacks: goals, substitutes, constraints, recipes, and the engine that runs many attacks in parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.attacks.attack_settings import AttackSettings as AttackSettings
    from holdfast.attacks.encoder_targets import DriftTarget as DriftTarget
    from holdfast.attacks.encoder_targets import RetrievalTarget as RetrievalTarget
    from holdfast.attacks.encoder_targets import ScoredPairTarget as ScoredPairTarget
    from holdfast.attacks.engine import Engine as Engine
    from holdfast.attacks.examples import Attempt as Attempt
    from holdfast.attacks.examples import Example as Example
    from holdfast.attacks.metrics import summarise as summarise
    from holdfast.attacks.recipes import RECIPES as RECIPES
    from holdfast.attacks.recipes import Recipe as Recipe
    from holdfast.attacks.recipes.bae import BAE as BAE
    from holdfast.attacks.recipes.bertattack import BERTAttack as BERTAttack
    from holdfast.attacks.recipes.geometry import Geometry as Geometry
    from holdfast.attacks.recipes.pwws import PWWS as PWWS
    from holdfast.attacks.recipes.textbugger import TextBugger as TextBugger
    from holdfast.attacks.recipes.textfooler import TextFooler as TextFooler
    from holdfast.attacks.recipes.typos import Typos as Typos
    from holdfast.attacks.resource_names import LIGHT as LIGHT
    from holdfast.attacks.resource_names import PAPER as PAPER
    from holdfast.attacks.resource_names import ResourceNames as ResourceNames
    from holdfast.attacks.resources import Resources as Resources
    from holdfast.attacks.targets import CallableTarget as CallableTarget
    from holdfast.attacks.targets import ClassifierTarget as ClassifierTarget

__getattr__ = lazy_exports(
    __name__,
    {
        "AttackSettings": "attack_settings",
        **dict.fromkeys(("DriftTarget", "RetrievalTarget", "ScoredPairTarget"), "encoder_targets"),
        "Engine": "engine",
        **dict.fromkeys(("Attempt", "Example"), "examples"),
        "summarise": "metrics",
        **dict.fromkeys(("RECIPES", "Recipe"), "recipes"),
        "BAE": "recipes.bae",
        "BERTAttack": "recipes.bertattack",
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
