"""The ensemble of all recipes: the worst case for each text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from holdfast.attacks.attack_state import AttackState, Constraint
from holdfast.attacks.recipes.recipe import Recipe
from holdfast.attacks.recipes.recipe_constants import NO_CONSTANT
from holdfast.attacks.requests import Fill, Judge, Predict, Request, Search
from holdfast.attacks.resource_names import TRAINING_EDITS


@dataclass(frozen=True)
class OfAnyPart(Constraint):
    """The words that one of several recipes may change, and the largest of their budgets.

    Args:
        parts: the constraints of each recipe.
    """

    parts: tuple[tuple[Constraint, ...], ...]

    def may_change(self, word: str) -> bool:
        """Return True if a recipe may change the word."""
        return any(all(constraint.may_change(word) for constraint in part) for part in self.parts)

    def budget(self, words: int) -> int:
        """Return the largest budget."""
        return max(min(constraint.budget(words) for constraint in part) for part in self.parts)


@dataclass(frozen=True)
class Auto(Recipe):
    """Attack each text with all recipes, the cheapest first, until one succeeds; then go on from the nearest failure.

    An ensemble without parameters, as AutoAttack (Croce and Hein, ICML 2020) is for images. First each recipe attacks
    the original text, exactly as it does alone: a text that one of them breaks is broken. If none does, each recipe
    goes on from the text that came closest to the goal. Changed words may then be changed anew; budget and similarity
    are measured beside the original. All recipes have the same budget. Recipes that need gradients are left out where
    there are none. What the model or the masked LM has computed for one recipe is not computed again for another.

    Args:
        parts: the recipes; empty: all that are published with holdfast, except those for hardened encoders.
        left_out: names of recipes that are left out, with the reason of each, for the record.
    """

    NAME: ClassVar[str] = "auto"
    IDEA: ClassVar[str] = "all recipes, the cheapest first: the worst case for each text"
    PAPER: ClassVar[str] = "after Croce and Hein, ICML 2020"

    max_share: float = 0.2
    parts: tuple[Recipe, ...] = field(default=(), metadata=NO_CONSTANT)
    left_out: tuple[tuple[str, str], ...] = field(default=(), metadata=NO_CONSTANT)

    def recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes in their order, the cheapest first, each with the budget of the ensemble."""
        parts = sorted(self.parts or published_parts(), key=lambda part: part.COST)
        return tuple(
            dataclasses.replace(
                part,
                max_share=self.max_share,
                max_words=self.max_words,
                valid_synonyms=self.valid_synonyms and part.SYNONYMS,
            )
            for part in parts
        )

    def constraints(self) -> tuple[Constraint, ...]:
        """Return the words and the budget of all recipes together; each recipe checks its own constraints."""
        return (OfAnyPart(tuple(part.constraints() for part in self.recipes())),)

    def needs(self) -> tuple[str, ...]:
        """Return the resources of all recipes, except the training of a hardened encoder, which others do not have."""
        names = dict.fromkeys(name for part in self.recipes() for name in part.needs())
        return tuple(name for name in names if name != TRAINING_EDITS)

    def search(self, state: AttackState) -> Search:
        """Run the recipes from the original, then from the failed text that came closest."""
        parts = [part for part in self.recipes() if state.gradients or not part.GRADIENTS]
        runs = _Runs(state, steps=2 * len(parts))
        for part in parts:
            yield from runs.run(part, state.begin(part.NAME, part.constraints()))
            if state.verdict.reached:
                return
        for part in parts:
            if runs.best is not None and runs.best.recipe != part.NAME:
                yield from runs.run(part, runs.best.go_on(part.NAME, part.constraints()))
                if state.verdict.reached:
                    return


class _Runs:
    """The runs of the recipes of an ensemble on one text.

    Args:
        state: the state of the ensemble, which follows the best run.
        steps: the number of runs, at most, for the progress.

    Attributes:
        best: the run that came closest to the goal; None: no word was changed.
    """

    def __init__(self, state: AttackState, steps: int) -> None:
        self._state, self._steps, self._done = state, steps, 0
        self._known: dict[Request, Any] = {}
        self.best: AttackState | None = None

    def run(self, part: Recipe, own: AttackState) -> Search:
        """Run a recipe, and let the state of the ensemble follow it if it comes closer to the goal."""
        if own.places and own.budget:
            yield from self._answered(part.search(own), lambda: self._note(own))
        self._done += 1
        self._note(None)
        best, noise = self._state.verdict, max(self._state.verdict.noise, own.verdict.noise)
        if own.verdict.reached or own.verdict.score > best.score + noise:
            self._state.follow(own)
            self.best = own

    def _answered(self, search: Search, note: Callable[[], None]) -> Generator[Request, Any, None]:
        """Pass the requests of a search on, except those to the masked LM that it has answered for this text."""
        answer: Any = None
        while True:
            try:
                request = search.send(answer)
            except StopIteration:
                return
            note()
            if isinstance(request, (Fill, Predict, Judge)):
                if request not in self._known:
                    self._known[request] = yield request
                answer = self._known[request]
            else:
                answer = yield request

    def _note(self, own: AttackState | None) -> None:
        """Count the finished share of all runs as words tried."""
        share = 0.0 if own is None else min(1.0, own.tried / len(own.places))
        self._state.tried = int(len(self._state.places) * (self._done + share) / self._steps)


def published_parts(*, hardened: bool = False) -> tuple[Recipe, ...]:
    """Return the recipes of holdfast with their published constants; those for hardened encoders if it is one."""
    from holdfast.attacks.recipes import RECIPES

    classes: Sequence[type[Recipe]] = [recipe for recipe in RECIPES.values() if recipe is not Auto]
    return tuple(part() for part in classes if hardened or TRAINING_EDITS not in part.NEEDS)
