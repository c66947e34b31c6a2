"""State of an attack on one text, and the steps that recipes consist of.

Steps that need the target are generators like the recipes: they yield requests, and recipes call them with
``yield from``. Ties are always broken by :func:`first_best`: the earlier word or candidate wins.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import Compare, Judge, Request
from holdfast.edits.words import Words, is_content_word

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

_EQUAL = 1e-5
_SAME_SIMILARITY = 2e-5

TAGGED_AROUND = 4
"""Words on each side of a candidate that are passed to the tagger; TextAttack uses four before and three after."""


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
        places: positions of the words that may be changed: content words that the target reads.
        words: the current text.
        verdict: verdict on the current text.
        changed: positions of changed words, in the order of the changes.
        tried: number of words for which substitutes were tried.
    """

    example: Example
    original: Words
    first: Verdict
    resources: Resources
    rng: random.Random
    unknown: str
    seen: int
    places: list[int] = field(init=False)
    words: Words = field(init=False)
    verdict: Verdict = field(init=False)
    changed: list[int] = field(default_factory=list)
    tried: int = 0

    def __post_init__(self) -> None:
        self.words, self.verdict = self.original, self.first
        self.places = changeable(self.original, self.seen)

    def take(self, place: int, words: Words, verdict: Verdict) -> None:
        """Accept a text that differs in one more word."""
        self.words, self.verdict = words, verdict
        self.changed.append(place)


Asking = Generator[Request, Any, list[int]]
Options = Sequence[tuple[str, float | None]]


def changeable(words: Words, seen: int) -> list[int]:
    """Return the positions of the content words within the first ``seen`` characters."""
    spans = words.spans
    return [place for place, word in enumerate(words.words) if is_content_word(word) and spans[place][1] <= seen]


# --- ranking -----------------------------------------------------------------------------------------------------


def gain(before: Verdict, after: Verdict) -> float:
    """Return the score increase, plus that of the new class's probability if the class changed (TextFooler, eq. 2)."""
    change = after.score - before.score
    if after.scores and after.label is not None and after.label != before.label:
        change += after.scores[after.label] - before.scores[after.label]
    return change


def by_deletion(state: AttackState) -> Asking:
    """Rank words by the gain when they are deleted, the largest first."""
    places = state.places
    verdicts = yield Judge(tuple(state.original.without(place) for place in places))
    return ranked(places, [gain(state.first, verdict) for verdict in verdicts], state.first.noise)


def saliency(state: AttackState, places: Sequence[int]) -> Generator[Request, Any, list[float]]:
    """Return the increase of the score when each word is replaced by the unknown token."""
    verdicts = yield Judge(tuple(state.original.exchanged(place, state.unknown).text for place in places))
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


# --- constraints -------------------------------------------------------------------------------------------------


def same_part_of_speech(
    state: AttackState, place: int, candidates: Sequence[str], *, verbs_as_nouns: bool
) -> list[str]:
    """Return the candidates with the word's tag; with ``verbs_as_nouns``, nouns and verbs count as equal."""
    wanted = _tag(state, place, state.words.words[place])
    tags = {candidate: _tag(state, place, candidate) for candidate in candidates}
    equal = {wanted, "NOUN", "VERB"} if verbs_as_nouns and wanted in ("NOUN", "VERB") else {wanted}
    return [candidate for candidate in candidates if tags[candidate] in equal]


def _tag(state: AttackState, place: int, word: str) -> str:
    words = state.words.words
    begin = max(0, place - TAGGED_AROUND)
    context = (*words[begin:place], word, *words[place + 1 : place + 1 + TAGGED_AROUND])
    return state.resources.tagger.tags(context)[place - begin]


def similar(
    state: AttackState,
    place: int,
    candidates: Sequence[str],
    *,
    minimum: float,
    window: int | None = None,
    to_original: bool = True,
) -> Generator[Request, Any, list[tuple[str, float | None]]]:
    """Return the candidates that keep the text similar enough, with their similarities.

    Args:
        state: the attack.
        place: position of the word to replace.
        candidates: substitutes for the word.
        minimum: minimum cosine, as published for USE; it is converted for other encoders.
        window: number of words around the place that are compared; shorter texts are not compared, as in TextAttack.
        to_original: compare with the original, not with the current text.
    """
    if window is not None and len(state.original.words) < window:
        return [(candidate, None) for candidate in candidates]
    reference = state.original if to_original else state.words
    texts = [state.words.exchanged(place, candidate) for candidate in candidates]
    if window is None:
        pairs = [(reference.text, text.text) for text in texts]
    else:
        pairs = [(reference.around(place, window), text.around(place, window)) for text in texts]
    cosines = (yield Compare(tuple(pairs))) if pairs else []
    bound = state.resources.similarity.threshold(minimum)
    return [(word, cosine) for word, cosine in zip(candidates, cosines, strict=True) if cosine >= bound]


# --- taking ------------------------------------------------------------------------------------------------------


def take_best(state: AttackState, place: int, options: Options) -> Generator[Request, Any, bool]:
    """Query all candidates for a word and accept the best; return True if the goal is reached.

    Of the candidates that reach the goal, the most similar is accepted if similarities are known, otherwise the one
    with the highest score. If none reaches the goal, the one with the highest score is accepted if it improves the
    score.
    """
    state.tried += 1
    if not options:
        return False
    texts = [state.words.exchanged(place, candidate) for candidate, _ in options]
    verdicts = yield Judge(tuple(text.text for text in texts))

    best = _best(options, verdicts)
    nearer = verdicts[best].score > state.verdict.score + max(verdicts[best].noise, state.verdict.noise)
    if verdicts[best].reached or nearer:
        state.take(place, texts[best], verdicts[best])
    return bool(verdicts[best].reached)


def _best(options: Options, verdicts: Sequence[Verdict]) -> int:
    field = [i for i, verdict in enumerate(verdicts) if verdict.reached] or list(range(len(verdicts)))
    similarities = [options[i][1] for i in field]
    if verdicts[field[0]].reached and None not in similarities:
        most = max(s for s in similarities if s is not None)
        field = [i for i, s in zip(field, similarities, strict=True) if s is not None and s >= most - _SAME_SIMILARITY]
    return field[first_best([verdicts[i].score for i in field], max(verdicts[i].noise for i in field))]
