"""The PWWS recipe (Probability Weighted Word Saliency)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from holdfast.attacks.attack_state import AttackState, first_best, ranked, saliency, take_best
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Query, Search


@dataclass(frozen=True)
class PWWS(Recipe):
    """Replace words by WordNet synonyms, in the order of saliency times gain (Ren et al., ACL 2019, eq. 4-10).

    The paper also swaps named entities, which needs a list of entities per class; this is not implemented.

    Args:
        reconsider: query all synonyms of a word again in the current text, as TextAttack does; otherwise use the
            synonym that was best in the original text, as the paper does.
        same_tag: use only synonyms with the word's part of speech, as in the paper but not in TextAttack.
        inflected: inflect synonyms like the original word; neither the paper nor TextAttack does.
    """

    NAME: ClassVar[str] = "pwws"
    IDEA: ClassVar[str] = "WordNet synonyms, words ordered by saliency times gain"
    PAPER: ClassVar[str] = "Ren et al., ACL 2019"
    COST: ClassVar[float] = 3.1
    NEEDS: ClassVar[tuple[str, ...]] = ("wordnet",)

    reconsider: bool = True
    same_tag: bool = False
    inflected: bool = False

    def needs(self) -> tuple[str, ...]:
        """Return the needed resources: WordNet, a tagger with ``same_tag``, inflections with ``inflected``."""
        return (*super().needs(), *("tagger",) * self.same_tag, *("inflection",) * self.inflected)

    def search(self, state: AttackState) -> Search:
        """Rank words by ``softmax(saliency) · gain of the best synonym`` in the original text; replace them in turn."""
        places = state.places
        salient = yield from saliency(state, places)
        synonyms = {}
        for place, words in self.synonyms(state, places).items():
            synonyms[place] = [each.word for each in (yield from state.allowed(place, words))]
        texts = [state.original.exchanged(place, word).text for place in places for word in synonyms[place]]
        verdicts = iter((yield Query(tuple(texts))) if texts else [])
        scores = {place: [next(verdicts).score for _ in synonyms[place]] for place in places}
        gains = [max(scores[place], default=state.first.score) - state.first.score for place in places]
        weights = softmax(np.array(salient)) if salient else np.empty(0)
        values = [float(value) for value in weights * np.array(gains)]
        order = ranked(places, values, state.first.noise / max(len(places), 1))
        for place in state.within_budget(order):
            words = synonyms[place]
            if words and not self.reconsider:
                words = [words[first_best(scores[place], state.first.noise)]]
            if (yield from take_best(state, place, words)):
                return

    def synonyms(self, state: AttackState, places: list[int]) -> dict[int, list[str]]:
        """Return the synonyms of each word in ``places``."""
        words = state.original.words
        tags = state.resources.tagger.tags(words) if self.same_tag else [None] * len(words)
        wordnet = state.resources.wordnet
        return {p: wordnet.synonyms(words[p], tag=tags[p], inflected=self.inflected) for p in places}
