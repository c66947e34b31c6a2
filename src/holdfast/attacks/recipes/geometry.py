"""The Geometry Attack on a target."""

from __future__ import annotations

import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from holdfast.adversary.synonyms import NEAR
from holdfast.adversary.words import others
from holdfast.attacks.recipes.base import Recipe
from holdfast.attacks.requests import Climb, Fill, Locate, Request, Search, Slope
from holdfast.attacks.trial import Trial, first_best


@dataclass(frozen=True)
class Geometry(Recipe):
    """Exchange the word with the largest gradient by the candidate that moves the vector farthest uphill.

    Meng and Wattenhofer, COLING 2020, as ADCL (§3.3) uses it: z is what enters the classification layer (or the
    sentence vector), v the gradient of the loss there, and the candidate with the largest signed projection
    ``(z_cand − z)·v/‖v‖`` is taken. It ends where none is positive.

    Args:
        candidates: candidates considered for a word.
        minimum_cosine: smallest cosine of a word's vector and its neighbours'; lists of neighbours have none.
        source: "masked-lm" (fillers of the masked word, of which the word's neighbours are kept), "neighbours" (the
            neighbours alone), or "auto": "masked-lm" where the neighbours are all words within a cosine, "neighbours"
            where they are lists of a few, which hold next to none of the fillers.
    """

    NAME: ClassVar[str] = "geometry"
    IDEA: ClassVar[str] = "the word with the largest gradient, moved along the gradient of the loss"
    PAPER: ClassVar[str] = "Meng and Wattenhofer, COLING 2020"
    GRADIENTS: ClassVar[bool] = True

    max_share: float = 0.4
    max_words: int | None = 20
    candidates: int = 50
    minimum_cosine: float = NEAR
    source: Literal["auto", "masked-lm", "neighbours"] = "auto"

    def needs(self) -> tuple[str, ...]:
        """Neighbours in any case, as the filter or as the source."""
        return ("synonyms",) if self.source == "neighbours" else ("synonyms", "masked_lm")

    def search(self, trial: Trial) -> Search:
        """One word an iteration; a word without candidates is passed over."""
        budget = self.budget(trial)
        slope: Slope | None = None
        tried: set[int] = set()
        while len(trial.changed) < budget:
            if slope is None:
                slope = yield Climb(trial.words)
            importance = slope.importance
            open_places = [p for p in trial.places if p not in tried and importance[p] > 0.0]
            if not open_places:
                return
            place = open_places[first_best([importance[p] for p in open_places])]
            tried.add(place)
            trial.tried = len(tried)
            candidates = yield from self._candidates(trial, place)
            if not candidates:
                continue
            texts = [trial.words.exchanged(place, word) for word in candidates]
            located = yield Locate(tuple(text.text for text in texts))
            rises = [float((z - slope.z) @ slope.direction) for z, _ in located]
            best = first_best(rises)
            if rises[best] <= 0.0:
                return
            trial.take(place, texts[best], located[best][1])
            if trial.verdict.reached:
                return
            slope = None

    def _candidates(self, trial: Trial, place: int) -> Generator[Request, Any, list[str]]:
        word = trial.words.words[place]
        synonyms = trial.resources.synonyms
        if self.source == "neighbours" or (self.source == "auto" and not synonyms.complete):
            return synonyms.nearest(word, self.candidates, self.minimum_cosine)
        near = {neighbour.casefold() for neighbour in synonyms.nearest(word, sys.maxsize, self.minimum_cosine)}
        fillers = yield Fill(trial.words, place)
        return [filler for filler in others(word, fillers) if filler.casefold() in near][: self.candidates]
