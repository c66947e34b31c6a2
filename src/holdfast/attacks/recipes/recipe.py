"""Base class of recipes: named constants, constraints and a search."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, Constraint
from holdfast.attacks.constraints import Budget, ContentWords, ValidSynonym
from holdfast.attacks.recipes.recipe_constants import RecipeConstants
from holdfast.attacks.requests import Search


@dataclass(frozen=True)
class Recipe(RecipeConstants, abc.ABC):
    """An attack on one text: constants, constraints, and a search that follows the paper's algorithm.

    A subclass sets the class attributes, lists its constants as fields with their published values as defaults, adds
    its :meth:`constraints`, and writes :meth:`search`. See `holdfast recipes`.

    Args:
        max_share: largest share of the text's words that may be changed, rounded down.
        max_words: words that may be changed at most; null: as many as ``max_share`` allows.
        valid_synonyms: allow only substitutes that are valid synonyms in the original text; no published attack does.

    Attributes:
        NAME: its name on the command line.
        IDEA: description in one line.
        PAPER: its source.
        NEEDS: resources of the search; constraints name theirs.
        GRADIENTS: whether it needs gradients of the target.
        COST: seconds for a text, relative to those of the recipe `typos` (`benchmarks/ensemble_attack.py`); an ensemble
            begins with the cheapest. Infinite: not measured.
        SYNONYMS: whether its substitutes may be synonyms, so that ``valid_synonyms`` has a meaning.
    """

    NAME: ClassVar[str]
    IDEA: ClassVar[str]
    PAPER: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    GRADIENTS: ClassVar[bool] = False
    COST: ClassVar[float] = math.inf
    SYNONYMS: ClassVar[bool] = True

    max_share: float = 1.0
    max_words: int | None = None
    valid_synonyms: bool = False

    def __post_init__(self) -> None:
        self.constraints()  # raises an error for constants that no constraint accepts

    @abc.abstractmethod
    def search(self, state: AttackState) -> Search:
        """Change the text word by word; return when the goal is reached or nothing is left to try."""

    def constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints, in the order in which substitutes are checked.

        Raises:
            ValueError: constants that no constraint accepts.
        """
        if self.valid_synonyms and not self.SYNONYMS:
            raise ValueError(
                f"the substitutes of {self.NAME} are no synonyms: set valid_synonyms of the other recipes, as in "
                "pwws.valid_synonyms"
            )
        budget = Budget(self.max_share, self.max_words)
        return (ContentWords(), budget, ValidSynonym()) if self.valid_synonyms else (ContentWords(), budget)

    def needs(self) -> tuple[str, ...]:
        """Return the names of all resources it uses, as in :class:`~holdfast.attacks.resources.Resources`."""
        return tuple(dict.fromkeys([*self.NEEDS, *(name for each in self.constraints() for name in each.NEEDS)]))
