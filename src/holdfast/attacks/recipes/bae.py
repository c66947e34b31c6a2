"""The BAE attack, replacement variant (BAE-R)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.adversary.words import others
from holdfast.attacks.recipes.base import Recipe
from holdfast.attacks.requests import Fill, Search
from holdfast.attacks.trial import Trial, by_deletion, same_part_of_speech, similar, take_best


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
    IDEA: ClassVar[str] = "what a masked language model fills in for the masked word"
    PAPER: ClassVar[str] = "Garg and Ramakrishnan, EMNLP 2020"
    NEEDS: ClassVar[tuple[str, ...]] = ("masked_lm", "tagger", "similarity")

    candidates: int = 50
    minimum_similarity: float = 0.936338
    window: int = 15
    verbs_as_nouns: bool = True

    def search(self, trial: Trial) -> Search:
        """For each word by importance, take the accepted filler that reaches the goal or comes closest."""
        budget = self.budget(trial)
        for place in (yield from by_deletion(trial)):
            if len(trial.changed) >= budget:
                return
            fillers = yield Fill(trial.words, place)
            words = others(trial.words.words[place], fillers[: self.candidates])
            words = same_part_of_speech(trial, place, words, verbs_as_nouns=self.verbs_as_nouns)
            options = yield from similar(trial, place, words, minimum=self.minimum_similarity, window=self.window)
            if (yield from take_best(trial, place, options)):
                return
