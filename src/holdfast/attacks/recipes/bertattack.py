"""The BERT-Attack recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.adversary.words import others
from holdfast.attacks.recipes.base import Recipe
from holdfast.attacks.requests import Read, Search
from holdfast.attacks.trial import Trial, ranked, saliency, similar, take_best


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

    def search(self, trial: Trial) -> Search:
        """Rank words by the effect of the unknown token in their place; take the best accepted prediction for each."""
        places = trial.places
        order = ranked(places, (yield from saliency(trial, places)), trial.first.noise)
        readings = yield Read(trial.original, self.candidates)
        budget = self.budget(trial)
        for place in order:
            if len(trial.changed) >= budget:
                return
            words = others(trial.words.words[place], readings[place])
            options = yield from similar(trial, place, words, minimum=self.minimum_similarity)
            if (yield from take_best(trial, place, options)):
                return
