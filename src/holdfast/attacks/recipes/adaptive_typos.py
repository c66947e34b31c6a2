"""The adaptive-typos recipe: typing errors that a hardened encoder was not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from holdfast.attacks.attack_state import AttackState, by_deletion, take_best
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.recipes.typos import KINDS
from holdfast.attacks.requests import Search
from holdfast.attacks.resource_names import TRAINING_EDITS


@dataclass(frozen=True)
class AdaptiveTypos(Recipe):
    """Make the typing errors in important words that a hardened encoder has seen least in training.

    Not from one paper: an attacker who knows the defence (Tramèr et al., NeurIPS 2020). The errors are those of the
    recipe `typos`. They are not drawn: of all errors in a word, those are tried that the training makes most rarely,
    that are no entry of the vocabulary, and that the spelling correction in the folder does not undo
    (:mod:`holdfast.attacks.training_edits`). Words are ranked as in TextFooler.

    Args:
        candidates: typing errors considered for a word.
        side: "outside" (the errors that were trained least), or "inside" (those that were trained most), to compare.
    """

    NAME: ClassVar[str] = "adaptive-typos"
    IDEA: ClassVar[str] = "typing errors that a hardened encoder was not trained on"
    PAPER: ClassVar[str] = "none"
    COST: ClassVar[float] = 2.6
    NEEDS: ClassVar[tuple[str, ...]] = (TRAINING_EDITS,)
    SYNONYMS: ClassVar[bool] = False

    candidates: int = 50
    max_share: float = 0.2
    side: Literal["outside", "inside"] = "outside"

    def search(self, state: AttackState) -> Search:
        """For each word by importance, take the typing error that reaches the goal or comes closest."""
        order = yield from by_deletion(state)
        training = state.resources.training_edits
        for place in state.within_budget(order):
            word = state.original.words[place]
            errors = training.typing_errors(word, KINDS, outside=self.side == "outside")
            if (yield from take_best(state, place, errors[: self.candidates])):
                return
