"""The evasion recipe: words written in ways that a reader overlooks, chosen by their effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, by_deletion, take_best
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Search
from holdfast.edits.evasion import EVASIONS


@dataclass(frozen=True)
class Evasion(Recipe):
    """Write important words so that a reader sees them as before: with invisible characters, look-alikes, emoji.

    Not from one paper; Boucher et al. (2022) attack with invisible characters, look-alikes and reordering. Words are
    ranked as in TextFooler.

    Args:
        tries: spellings of each kind that are drawn for a word.
    """

    NAME: ClassVar[str] = "evasion"
    IDEA: ClassVar[str] = "invisible characters, look-alikes, letters set apart, writing direction, digits, emoji"
    PAPER: ClassVar[str] = "none"
    COST: ClassVar[float] = 1.4
    SYNONYMS: ClassVar[bool] = False

    tries: int = 2
    max_share: float = 0.2

    def search(self, state: AttackState) -> Search:
        """For each word by importance, take the spelling that reaches the goal or comes closest."""
        order = yield from by_deletion(state)
        for place in state.within_budget(order):
            if (yield from take_best(state, place, self.spellings(state, state.original.words[place]))):
                return

    def spellings(self, state: AttackState, word: str) -> list[str]:
        """Return the distinct spellings of a word, in the order of `EVASIONS`."""
        drawn = [evade(word, state.rng) for evade in EVASIONS.values() for _ in range(self.tries)]
        return list(dict.fromkeys(spelling for spelling in drawn if spelling is not None and spelling != word))
