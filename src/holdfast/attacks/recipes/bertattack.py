"""The BERT-Attack recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, Constraint, ranked, saliency, take_best
from holdfast.attacks.constraints import SimilarText
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Predict, Search
from holdfast.edits.words import others


@dataclass(frozen=True)
class BERTAttack(Recipe):
    """Replace words by the predictions of a masked language model for the unmasked text.

    Li et al., EMNLP 2020, Algorithm 1. For a word of several sub-words, the most probable combinations are taken.

    Args:
        candidates: K, predictions considered for a word: 8 as in TextAttack; the paper has 48.
        minimum_similarity: smallest cosine of the original and the changed text, as USE gives it.
    """

    NAME: ClassVar[str] = "bertattack"
    IDEA: ClassVar[str] = "predictions of a masked language model for the unmasked text"
    PAPER: ClassVar[str] = "Li et al., EMNLP 2020"
    COST: ClassVar[float] = 0.9
    NEEDS: ClassVar[tuple[str, ...]] = ("masked_lm",)

    candidates: int = 8
    max_share: float = 0.4
    minimum_similarity: float = 0.2

    def constraints(self) -> tuple[Constraint, ...]:
        """Return those of all recipes, and the similarity to the original text."""
        return (*super().constraints(), SimilarText(self.minimum_similarity))

    def search(self, state: AttackState) -> Search:
        """Rank words by the effect of the unknown token in their place; take the best accepted prediction for each."""
        places = state.places
        order = ranked(places, (yield from saliency(state, places)), state.first.noise)
        predictions = yield Predict(state.original, self.candidates)
        for place in state.within_budget(order):
            words = others(state.original.words[place], predictions[place])
            if (yield from take_best(state, place, words)):
                return
