"""The TextBugger recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, Constraint, by_deletion, take_best
from holdfast.attacks.constraints import SimilarText
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Search
from holdfast.edits.typing_errors import typing_errors

KINDS = ("space", "drop", "swap", "look-alike")


@dataclass(frozen=True)
class TextBugger(Recipe):
    """Misspell important words, or replace them by word-vector neighbours (Li et al., NDSS 2019, Algorithm 3).

    The bugs: insert a space, delete an inner letter, swap two inner letters, replace a letter by a homoglyph, each at a
    random position; and replace the word by its nearest neighbours.

    Args:
        neighbours: neighbours considered for a word.
        minimum_cosine: smallest cosine of the two words' vectors; -1 is any, as in TextAttack.
        minimum_similarity: smallest cosine of the original and the changed text, as USE gives it; TextAttack writes
            it as an angular similarity of 0.8.
    """

    NAME: ClassVar[str] = "textbugger"
    IDEA: ClassVar[str] = "misspellings that readers overlook, and neighbours in meaning"
    PAPER: ClassVar[str] = "Li et al., NDSS 2019"
    COST: ClassVar[float] = 1.8
    NEEDS: ClassVar[tuple[str, ...]] = ("synonyms",)

    neighbours: int = 5
    minimum_cosine: float = -1.0
    minimum_similarity: float = 0.809

    def constraints(self) -> tuple[Constraint, ...]:
        """Return those of all recipes, and the similarity to the original text."""
        return (*super().constraints(), SimilarText(self.minimum_similarity))

    def search(self, state: AttackState) -> Search:
        """For each word by importance, take the accepted bug that reaches the goal or comes closest."""
        order = yield from by_deletion(state)
        for place in state.within_budget(order):
            if (yield from take_best(state, place, self.bugs(state, state.original.words[place]))):
                return

    def bugs(self, state: AttackState, word: str) -> list[str]:
        """Return the distinct bugs of a word."""
        bugs = typing_errors(word, state.rng, KINDS)
        near = state.resources.synonyms.nearest(word, self.neighbours, self.minimum_cosine)
        return list(dict.fromkeys([*bugs, *near]))
