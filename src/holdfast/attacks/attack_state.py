"""State of an attack on one text, the interface of its constraints, and the steps that recipes consist of.

Steps that need the target are generators like the recipes: they yield requests, and recipes call them with
``yield from``. Ties are always broken by :func:`first_best`: the earlier word or candidate wins.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import Query, Request
from holdfast.edits.words import Words

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

_EQUAL = 1e-5
_SAME_SIMILARITY = 2e-5


class Candidate(NamedTuple):
    """A substitute for a word, and the similarity of the changed text to the reference; None if not measured."""

    word: str
    similarity: float | None = None


Candidates = Sequence[Candidate]
Filtering = Generator[Request, Any, Candidates]


class Constraint:
    """A condition on adversarial texts; every method allows everything unless a subclass overrides it.

    Attributes:
        NEEDS: names of the resources it uses, as in :class:`~holdfast.attacks.resources.Resources`.
        WHOLE: whether it limits the changed text as a whole, beside the original. If another recipe goes on from the
            text of this one, such a constraint stays.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ()
    WHOLE: ClassVar[bool] = False

    def may_change(self, word: str) -> bool:
        """Return True if a word of the original text may be changed."""
        return True

    def budget(self, words: int) -> int:
        """Return the maximum number of words that may be changed in a text of ``words`` words."""
        return words

    def accepts(self, state: AttackState, place: int, word: str) -> bool:
        """Return True if ``word`` may stand at ``place`` of the current text, ``state.words``."""
        return True

    def filter(self, state: AttackState, place: int, candidates: Candidates) -> Filtering:
        """Return the allowed candidates for the word at ``place``.

        Override this generator instead of :meth:`accepts` to yield requests (:mod:`holdfast.attacks.requests`).
        """
        yield from ()
        return [candidate for candidate in candidates if self.accepts(state, place, candidate.word)]


@dataclass(eq=False)
class AttackState:
    """The state of an attack on one text.

    Attributes:
        example: the example.
        original: the attacked text.
        first: verdict on the original.
        resources: the linguistic resources.
        rng: random numbers for this example and recipe, independent of other examples.
        unknown: the target's unknown-word token.
        seen: number of characters of the text that the target reads.
        constraints: the constraints of the recipe, in the order in which substitutes are checked.
        places: positions of the words that may be changed and that the target reads.
        budget: maximum number of words that may be changed.
        words: the current text.
        verdict: verdict on the current text.
        changed: positions of changed words, in the order of the changes.
        changed_by: the recipe that made each of these changes.
        tried: number of words for which substitutes were tried.
        seed: the random seed of the run.
        gradients: whether the target gives gradients.
        recipe: name of the recipe.
        begun: positions of the words that were changed already in the text from which the recipe began. They may be
            changed again, in place of the change before, without cost for the budget.
    """

    example: Example
    original: Words
    first: Verdict
    resources: Resources
    rng: random.Random
    unknown: str
    seen: int
    constraints: Sequence[Constraint]
    places: list[int] = field(init=False)
    budget: int = field(init=False)
    words: Words = field(init=False)
    verdict: Verdict = field(init=False)
    changed: list[int] = field(default_factory=list)
    changed_by: list[str] = field(default_factory=list)
    tried: int = 0
    seed: int = 0
    gradients: bool = False
    recipe: str = ""
    begun: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.words, self.verdict = self.original, self.first
        self.places = changeable(self.original, self.seen, self.constraints)
        count = len(self.original.words)
        self.budget = min((constraint.budget(count) for constraint in self.constraints), default=count)

    def within_budget(self, order: Iterable[int]) -> Iterator[int]:
        """Yield places in the given order until the budget is used up; after that those in `begun` alone."""
        for place in order:
            if len(self.changed) < self.budget or place in self.begun:
                yield place

    def allowed(self, place: int, words: Iterable[str]) -> Generator[Request, Any, Candidates]:
        """Return the substitutes for a word that satisfy all constraints."""
        candidates: Candidates = [Candidate(word) for word in words]
        if place in self.begun:  # the original word would undo the change that is counted
            candidates = [each for each in candidates if each.word != self.original.words[place]]
        for constraint in self.constraints:
            candidates = yield from constraint.filter(self, place, candidates)
        return candidates

    def take(self, place: int, words: Words, verdict: Verdict) -> None:
        """Accept a text that differs in one more word, or has another change of a word in `begun`."""
        self.words, self.verdict = words, verdict
        if place in self.changed:
            at = self.changed.index(place)
            del self.changed[at], self.changed_by[at]
        self.changed.append(place)
        self.changed_by.append(self.recipe)

    def follow(self, other: AttackState) -> None:
        """Accept the text of another attack on the same example, with its changes."""
        self.words, self.verdict = other.words, other.verdict
        self.changed, self.changed_by = list(other.changed), list(other.changed_by)

    def begin(self, recipe: str, constraints: Sequence[Constraint]) -> AttackState:
        """Return the state of another recipe on the same example, from the original: as if it attacked alone."""
        return replace(
            self,
            recipe=recipe,
            constraints=constraints,
            rng=random_numbers(self.seed, recipe, self.example.number),
            changed=[],
            changed_by=[],
            tried=0,
            begun=frozenset(),
        )

    def go_on(self, recipe: str, constraints: Sequence[Constraint]) -> AttackState:
        """Return the state of another recipe that begins from the text of this one.

        Budget and similarity are those of the whole text beside the original: the constraints of this attack that
        limit the text as a whole stay.
        """
        stay = [constraint for constraint in self.constraints if constraint.WHOLE]
        state = self.begin(f"{recipe} after {self.recipe}", tuple(dict.fromkeys([*constraints, *stay])))
        state.recipe, state.begun = recipe, frozenset(self.changed)
        state.follow(self)
        return state


def random_numbers(seed: int, recipe: str, number: int) -> random.Random:
    """Return the random numbers of a recipe for the example of a number."""
    return random.Random(f"{seed}/{recipe}/{number}")


def changeable(words: Words, seen: int, constraints: Sequence[Constraint]) -> list[int]:
    """Return the positions of the words within the first ``seen`` characters that may be changed."""
    spans = words.spans
    return [
        place
        for place, word in enumerate(words.words)
        if spans[place][1] <= seen and all(constraint.may_change(word) for constraint in constraints)
    ]


# --- ranking -----------------------------------------------------------------------------------------------------


def gain(before: Verdict, after: Verdict) -> float:
    """Return the score increase, plus that of the new class's probability if the class changed (TextFooler, eq. 2)."""
    change = after.score - before.score
    if after.scores and after.label is not None and after.label != before.label:
        change += after.scores[after.label] - before.scores[after.label]
    return change


def by_deletion(state: AttackState) -> Generator[Request, Any, list[int]]:
    """Rank words by the gain when they are deleted, the largest first.

    The only word of a text is not deleted: many services refuse an empty text.
    """
    places = state.places
    if len(places) == 1 and not state.original.without(places[0]).strip():
        return list(places)
    verdicts = yield Query(tuple(state.original.without(place) for place in places))
    return ranked(places, [gain(state.first, verdict) for verdict in verdicts], state.first.noise)


def saliency(state: AttackState, places: Sequence[int]) -> Generator[Request, Any, list[float]]:
    """Return the increase of the score when each word is replaced by the unknown token."""
    verdicts = yield Query(tuple(state.original.exchanged(place, state.unknown).text for place in places))
    return [verdict.score - state.first.score for verdict in verdicts]


def first_best(values: Sequence[float], noise: float = 0.0) -> int:
    """Return the index of the first value that equals the largest, up to ``noise`` and a relative 1e-5."""
    bound = _bound(max(values), noise)
    return next(i for i, value in enumerate(values) if value >= bound)


def _bound(largest: float, noise: float) -> float:
    """Return the smallest value that counts as equal to the largest."""
    return largest - noise - _EQUAL * abs(largest)


def ranked(places: Sequence[int], values: Sequence[float], noise: float = 0.0) -> list[int]:
    """Sort places by decreasing value, with ties broken as in :func:`first_best`."""
    falling = sorted(zip(values, places, strict=True), key=lambda pair: -pair[0])
    order: list[int] = []
    equal: list[int] = []  # heap of the places whose values equal the largest remaining one
    taken: set[int] = set()
    largest = bounded = 0
    while len(order) < len(falling):
        while falling[largest][1] in taken:
            largest += 1
        bound = _bound(falling[largest][0], noise)
        while bounded < len(falling) and falling[bounded][0] >= bound:
            heapq.heappush(equal, falling[bounded][1])
            bounded += 1
        order.append(heapq.heappop(equal))
        taken.add(order[-1])
    return order


# --- replacing ---------------------------------------------------------------------------------------------------


def take_best(state: AttackState, place: int, words: Iterable[str]) -> Generator[Request, Any, bool]:
    """Query the substitutes that satisfy the constraints and accept the best; return True if the goal is reached.

    Of the candidates that reach the goal, the most similar is accepted if similarities are known, otherwise the one
    with the highest score. If none reaches the goal, the one with the highest score is accepted if it improves the
    score.
    """
    candidates = yield from state.allowed(place, words)
    state.tried += 1
    if not candidates:
        return False
    texts = [state.words.exchanged(place, candidate.word) for candidate in candidates]
    verdicts = yield Query(tuple(text.text for text in texts))

    best = _best(candidates, verdicts)
    closer = verdicts[best].score > state.verdict.score + max(verdicts[best].noise, state.verdict.noise)
    if verdicts[best].reached or closer:
        state.take(place, texts[best], verdicts[best])
    return bool(verdicts[best].reached)


def _best(candidates: Candidates, verdicts: Sequence[Verdict]) -> int:
    eligible = [i for i, verdict in enumerate(verdicts) if verdict.reached] or list(range(len(verdicts)))
    similarities = [candidates[i].similarity for i in eligible]
    if verdicts[eligible[0]].reached and None not in similarities:
        most = max(s for s in similarities if s is not None)
        eligible = [
            i
            for i, similarity in zip(eligible, similarities, strict=True)
            if similarity is not None and similarity >= most - _SAME_SIMILARITY
        ]
    return eligible[first_best([verdicts[i].score for i in eligible], max(verdicts[i].noise for i in eligible))]
