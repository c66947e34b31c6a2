"""The BERT-Attack recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, ranked, saliency, similar, take_best
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Read, Search
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
    IDEA: ClassVar[str] = "what a masked language model reads into the unmasked text"
    PAPER: ClassVar[str] = "Li et al., EMNLP 2020"
    NEEDS: ClassVar[tuple[str, ...]] = ("masked_lm", "similarity")

    candidates: int = 8
    max_share: float = 0.4
    minimum_similarity: float = 0.2

    def search(self, state: AttackState) -> Search:
        """Rank words by the effect of the unknown token in their place; take the best accepted prediction for each."""
        places = state.places
        order = ranked(places, (yield from saliency(state, places)), state.first.noise)
        readings = yield Read(state.original, self.candidates)
        budget = self.budget(state)
        for place in order:
            if len(state.changed) >= budget:
                return
            words = others(state.words.words[place], readings[place])
            options = yield from similar(state, place, words, minimum=self.minimum_similarity)
            if (yield from take_best(state, place, options)):
                return
