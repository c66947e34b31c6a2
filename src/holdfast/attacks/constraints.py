"""Constraints of recipes: conditions on the words that may be changed, on their number, and on the substitutes.

A recipe lists its constraints (:meth:`holdfast.attacks.recipes.Recipe.constraints`), and the search asks them in that
order. A constraint of your own is a subclass of :class:`~holdfast.attacks.attack_state.Constraint` that overrides the
methods it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState, Candidate, Candidates, Constraint, Filtering
from holdfast.attacks.requests import Compare, Judge
from holdfast.attacks.resource_names import VALID_SYNONYMS
from holdfast.edits.substitution_form import Substitution
from holdfast.edits.words import is_content_word

TAGGED_AROUND = 4
"""Words on each side of a candidate that are passed to the tagger; TextAttack uses four before and three after."""


@dataclass(frozen=True)
class ContentWords(Constraint):
    """Change content words only: no stop words, numbers, single letters or punctuation."""

    def may_change(self, word: str) -> bool:
        """Return True for a content word."""
        return is_content_word(word)


@dataclass(frozen=True)
class Budget(Constraint):
    """Change at most a share of the text's words, and at most a number of words.

    Args:
        max_share: largest share of the words, rounded down.
        max_words: largest number of words; None: no limit.
    """

    WHOLE: ClassVar[bool] = True

    max_share: float = 1.0
    max_words: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.max_share <= 1.0:
            raise ValueError(f"max_share must lie in (0, 1], got {self.max_share:g}")
        if self.max_words is not None and self.max_words < 1:
            raise ValueError(f"max_words must be at least 1, got {self.max_words}")

    def budget(self, words: int) -> int:
        """Return the smaller of both limits."""
        # The small term corrects floating-point errors: 0.4 of 5 words is 2, not 1.999...
        most = int(self.max_share * words + 1e-9)
        return most if self.max_words is None else min(most, self.max_words)


@dataclass(frozen=True)
class SamePartOfSpeech(Constraint):
    """Allow only substitutes with the part of speech of the word, tagged in the current text.

    Args:
        verbs_as_nouns: treat nouns and verbs as equal.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("tagger",)

    verbs_as_nouns: bool = False

    def accepts(self, state: AttackState, place: int, word: str) -> bool:
        """Return True if the word has the tag of the original word."""
        tag, wanted = (self._tag(state, place, each) for each in (word, state.original.words[place]))
        return tag == wanted or (self.verbs_as_nouns and {tag, wanted} == {"NOUN", "VERB"})

    def _tag(self, state: AttackState, place: int, word: str) -> str:
        words = state.words.words
        begin = max(0, place - TAGGED_AROUND)
        context = (*words[begin:place], word, *words[place + 1 : place + 1 + TAGGED_AROUND])
        return state.resources.tagger.tags(context)[place - begin]


@dataclass(frozen=True)
class ValidSynonym(Constraint):
    """Allow only synonyms that are valid in the original text (:mod:`holdfast.attacks.valid_synonyms`)."""

    NEEDS: ClassVar[tuple[str, ...]] = ("wordnet", "tagger", "synonyms", "masked_lm", VALID_SYNONYMS)

    def filter(self, state: AttackState, place: int, candidates: Candidates) -> Filtering:
        """Return the valid candidates."""
        asked = tuple(Substitution(state.original, place, candidate.word) for candidate in candidates)
        valid = (yield Judge(asked)) if asked else []
        return [candidate for candidate, holds in zip(candidates, valid, strict=True) if holds]


@dataclass(frozen=True)
class SimilarText(Constraint):
    """Allow only substitutes that keep the text similar, by the cosine of sentence vectors.

    Args:
        minimum: minimum cosine, as published for USE; it is converted for other encoders.
        window: number of words around the substitution that are compared; shorter texts are not compared, as in
            TextAttack. None: compare whole texts.
        to_original: compare with the original text, not with the current one. With a text that another recipe has
            changed the original is always compared, so that the changes do not add up.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("similarity",)
    WHOLE: ClassVar[bool] = True

    minimum: float
    window: int | None = None
    to_original: bool = True

    def filter(self, state: AttackState, place: int, candidates: Candidates) -> Filtering:
        """Return the candidates with a cosine of at least ``minimum``, and their cosines."""
        window = self.window
        if window is not None and len(state.original.words) < window:
            return candidates
        reference = state.original if self.to_original or state.begun else state.words
        texts = [state.words.exchanged(place, candidate.word) for candidate in candidates]
        if window is None:
            pairs = [(reference.text, text.text) for text in texts]
        else:
            pairs = [(reference.around(place, window), text.around(place, window)) for text in texts]
        cosines = (yield Compare(tuple(pairs))) if pairs else []
        bound = state.resources.similarity.threshold(self.minimum)
        return [
            Candidate(candidate.word, cosine)
            for candidate, cosine in zip(candidates, cosines, strict=True)
            if cosine >= bound
        ]
