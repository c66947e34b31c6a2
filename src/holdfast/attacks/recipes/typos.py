"""The typos recipe: typing errors chosen by their effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, by_deletion, take_best
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Search
from holdfast.edits.typing_errors import typing_errors

KINDS = ("key", "swap", "drop", "case")


@dataclass(frozen=True)
class Typos(Recipe):
    """Make typing errors in important words: a neighbouring key, two letters swapped, a letter dropped, wrong case.

    Not from a paper; typing errors occur in real use. Words are ranked as in TextFooler.

    Args:
        tries: typing errors of each kind that are drawn for a word.
    """

    NAME: ClassVar[str] = "typos"
    IDEA: ClassVar[str] = "typing errors: a neighbouring key, swapped or dropped letters, wrong case"
    PAPER: ClassVar[str] = "none"
    COST: ClassVar[float] = 1.0
    SYNONYMS: ClassVar[bool] = False

    tries: int = 2
    max_share: float = 0.2

    def search(self, state: AttackState) -> Search:
        """For each word by importance, take the typing error that reaches the goal or comes closest."""
        order = yield from by_deletion(state)
        for place in state.within_budget(order):
            errors = typing_errors(state.original.words[place], state.rng, KINDS, self.tries)
            if (yield from take_best(state, place, errors)):
                return
