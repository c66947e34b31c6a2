"""The TextFooler recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, Constraint, by_deletion, take_best
from holdfast.attacks.constraints import SamePartOfSpeech, SimilarText
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Search
from holdfast.edits.synonyms import NEAR


@dataclass(frozen=True)
class TextFooler(Recipe):
    """Replace important words by neighbours in counter-fitted word-vector space (Jin et al., AAAI 2020, Algorithm 1).

    Args:
        candidates: neighbours considered for a word.
        minimum_cosine: smallest cosine of the two words' vectors; lists of neighbours have none.
        minimum_similarity: smallest cosine of the text before and after a substitution, as USE gives it: an angle of
            at most 0.5 rad, which TextAttack writes as an angular similarity of 0.840845.
        window: words around the substitution that are compared; shorter texts are not compared.
        verbs_as_nouns: allow a noun to replace a verb and vice versa.
    """

    NAME: ClassVar[str] = "textfooler"
    IDEA: ClassVar[str] = "neighbours in counter-fitted vector space, with the same part of speech"
    PAPER: ClassVar[str] = "Jin et al., AAAI 2020"
    COST: ClassVar[float] = 1.1
    NEEDS: ClassVar[tuple[str, ...]] = ("synonyms",)

    candidates: int = 50
    minimum_cosine: float = NEAR
    minimum_similarity: float = 0.8776
    window: int = 15
    verbs_as_nouns: bool = True

    def constraints(self) -> tuple[Constraint, ...]:
        """Return those of all recipes, the part of speech, and the similarity to the text before the substitution."""
        return (
            *super().constraints(),
            SamePartOfSpeech(self.verbs_as_nouns),
            SimilarText(self.minimum_similarity, self.window, to_original=False),
        )

    def search(self, state: AttackState) -> Search:
        """For each word by importance, take the accepted candidate that reaches the goal or comes closest."""
        order = yield from by_deletion(state)
        for place in state.within_budget(order):
            word = state.original.words[place]
            neighbours = state.resources.synonyms.nearest(word, self.candidates, self.minimum_cosine)
            if (yield from take_best(state, place, neighbours)):
                return
