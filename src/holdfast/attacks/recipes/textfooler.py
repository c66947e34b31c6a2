"""The TextFooler recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.adversary.synonyms import NEAR
from holdfast.attacks.recipes.base import Recipe
from holdfast.attacks.requests import Search
from holdfast.attacks.trial import Trial, by_deletion, same_part_of_speech, similar, take_best


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
    NEEDS: ClassVar[tuple[str, ...]] = ("synonyms", "tagger", "similarity")

    candidates: int = 50
    minimum_cosine: float = NEAR
    minimum_similarity: float = 0.8776
    window: int = 15
    verbs_as_nouns: bool = True

    def search(self, trial: Trial) -> Search:
        """For each word by importance, take the accepted candidate that reaches the goal or comes closest."""
        budget = self.budget(trial)
        for place in (yield from by_deletion(trial)):
            if len(trial.changed) >= budget:
                return
            word = trial.words.words[place]
            words = trial.resources.synonyms.nearest(word, self.candidates, self.minimum_cosine)
            words = same_part_of_speech(trial, place, words, verbs_as_nouns=self.verbs_as_nouns)
            options = yield from similar(
                trial, place, words, minimum=self.minimum_similarity, window=self.window, to_original=False
            )
            if (yield from take_best(trial, place, options)):
                return
