"""The Geometry Attack recipe."""

from __future__ import annotations

import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from holdfast.attacks.attack_state import AttackState, first_best
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.requests import Differentiate, Fill, LossGradient, Request, Search, Vectorise
from holdfast.edits.synonyms import NEAR
from holdfast.edits.words import others


@dataclass(frozen=True)
class Geometry(Recipe):
    """Replace the word with the largest gradient by the candidate that moves the vector most along the loss gradient.

    Meng and Wattenhofer, COLING 2020, as used in ADCL (§3.3): z is the input of the classification layer (or the
    sentence vector), v the gradient of the loss at z, and the candidate with the largest signed projection
    ``(z_cand − z)·v/‖v‖`` is taken. The search ends if no projection is positive.

    Args:
        candidates: candidates considered for a word.
        minimum_cosine: smallest cosine of a word's vector and its neighbours'; lists of neighbours have none.
        source: "masked-lm" (fillers of the masked word that are also its neighbours), "neighbours" (the neighbours
            only), or "auto": "masked-lm" if the neighbours come from word vectors, "neighbours" if they come from short
            lists, which contain hardly any fillers.
    """

    NAME: ClassVar[str] = "geometry"
    IDEA: ClassVar[str] = "the word with the largest gradient, moved along the gradient of the loss"
    PAPER: ClassVar[str] = "Meng and Wattenhofer, COLING 2020"
    COST: ClassVar[float] = 0.8
    NEEDS: ClassVar[tuple[str, ...]] = ("synonyms",)
    GRADIENTS: ClassVar[bool] = True

    max_share: float = 0.4
    max_words: int | None = 20
    candidates: int = 50
    minimum_cosine: float = NEAR
    source: Literal["auto", "masked-lm", "neighbours"] = "auto"

    def needs(self) -> tuple[str, ...]:
        """Return the needed resources: synonyms always, as filter or source; a masked LM unless "neighbours" is set."""
        return (*super().needs(), *("masked_lm",) * (self.source != "neighbours"))

    def search(self, state: AttackState) -> Search:
        """Replace one word per iteration; skip words without candidates."""
        slope: LossGradient | None = None
        tried: set[int] = set()
        while len(state.changed) < state.budget or state.begun - tried:
            if slope is None:
                slope = yield Differentiate(state.words)
            importance = slope.importance
            open_places = [p for p in state.within_budget(state.places) if p not in tried and importance[p] > 0.0]
            if not open_places:
                return
            place = open_places[first_best([importance[p] for p in open_places])]
            tried.add(place)
            state.tried = len(tried)
            words = yield from self._candidates(state, place)
            candidates = yield from state.allowed(place, words)
            if not candidates:
                continue
            texts = [state.words.exchanged(place, candidate.word) for candidate in candidates]
            located = yield Vectorise(tuple(text.text for text in texts))
            rises = [float((z - slope.z) @ slope.direction) for z, _ in located]
            best = first_best(rises)
            if rises[best] <= 0.0:
                return
            state.take(place, texts[best], located[best][1])
            if state.verdict.reached:
                return
            slope = None

    def _candidates(self, state: AttackState, place: int) -> Generator[Request, Any, list[str]]:
        word = state.original.words[place]
        synonyms = state.resources.synonyms
        if self.source == "neighbours" or (self.source == "auto" and not synonyms.complete):
            return synonyms.nearest(word, self.candidates, self.minimum_cosine)
        near = {neighbour.casefold() for neighbour in synonyms.nearest(word, sys.maxsize, self.minimum_cosine)}
        fillers = yield Fill(state.words, place)
        return [filler for filler in others(word, fillers) if filler.casefold() in near][: self.candidates]
