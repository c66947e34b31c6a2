"""The BAE attack, replacement variant (BAE-R)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, Constraint, by_deletion, take_best
from holdfast.attacks.constraints import SamePartOfSpeech, SimilarText
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Fill, Search
from holdfast.edits.words import others


@dataclass(frozen=True)
class BAE(Recipe):
    """Mask important words and let a masked language model fill them in (Garg and Ramakrishnan, EMNLP 2020, BAE-R).

    Args:
        candidates: fillers considered for a word.
        minimum_similarity: smallest cosine of the original and the changed text, as USE gives it.
        window: words around the substitution that are compared; shorter texts are not compared.
        verbs_as_nouns: allow a noun to replace a verb and vice versa.
    """

    NAME: ClassVar[str] = "bae-r"
    IDEA: ClassVar[str] = "fillers of the masked word by a masked language model"
    PAPER: ClassVar[str] = "Garg and Ramakrishnan, EMNLP 2020"
    COST: ClassVar[float] = 6.6
    NEEDS: ClassVar[tuple[str, ...]] = ("masked_lm",)

    candidates: int = 50
    minimum_similarity: float = 0.936338
    window: int = 15
    verbs_as_nouns: bool = True

    def constraints(self) -> tuple[Constraint, ...]:
        """Return those of all recipes, the part of speech, and the similarity to the original text."""
        return (
            *super().constraints(),
            SamePartOfSpeech(self.verbs_as_nouns),
            SimilarText(self.minimum_similarity, self.window),
        )

    def search(self, state: AttackState) -> Search:
        """For each word by importance, take the accepted filler that reaches the goal or comes closest."""
        order = yield from by_deletion(state)
        for place in state.within_budget(order):
            fillers = yield Fill(state.words, place)
            words = others(state.original.words[place], fillers[: self.candidates])
            if (yield from take_best(state, place, words)):
                return
