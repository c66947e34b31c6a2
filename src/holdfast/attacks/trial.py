"""One text under attack, and the moves that recipes are made of.

The functions here are generators like the recipes themselves: they yield requests, and what they ``return`` is used
with ``yield from``. Ties are broken everywhere in the same way, by :func:`first_best`: the earlier word, the earlier
candidate.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.adversary.words import Words, is_content_word
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import Compare, Judge, Request

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

_EQUAL = 1e-5
_SAME_SIMILARITY = 2e-5

TAGGED_AROUND = 4
"""Words on each side of a candidate that the tagger sees; TextAttack shows it four before and three after."""


@dataclass(eq=False)
class Trial:
    """The state of an attack on one text.

    Attributes:
        example: the example.
        original: the attacked text.
        first: what the target makes of it.
        resources: the linguistic resources.
        rng: random numbers of this example and recipe alone, whatever else is attacked beside it.
        unknown: the target's unknown-word token.
        seen: how many characters of the text the target sees.
        places: of the words that may be changed: content words that the target sees.
        words: the text as it is now.
        verdict: what the target makes of it now.
        changed: places that were changed, in this order.
        tried: how many places had their turn.
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
        """Go over to a text that differs in one more word."""
        self.words, self.verdict = words, verdict
        self.changed.append(place)


Asking = Generator[Request, Any, list[int]]
Options = Sequence[tuple[str, float | None]]


def changeable(words: Words, seen: int) -> list[int]:
    """Places of the content words that lie within the first ``seen`` characters."""
    spans = words.spans
    return [place for place, word in enumerate(words.words) if is_content_word(word) and spans[place][1] <= seen]


# --- ranking -----------------------------------------------------------------------------------------------------


def gain(before: Verdict, after: Verdict) -> float:
    """How much nearer to the goal; of a changed class also how much likelier it became (TextFooler, eq. 2)."""
    change = after.score - before.score
    if after.scores and after.label is not None and after.label != before.label:
        change += after.scores[after.label] - before.scores[after.label]
    return change


def by_deletion(trial: Trial) -> Asking:
    """Places, the one first whose deletion brings the target nearest to the goal."""
    places = trial.places
    verdicts = yield Judge(tuple(trial.original.without(place) for place in places))
    return ranked(places, [gain(trial.first, verdict) for verdict in verdicts], trial.first.noise)


def saliency(trial: Trial, places: Sequence[int]) -> Generator[Request, Any, list[float]]:
    """For each place how much nearer to the goal the target comes when the word is unknown to it."""
    verdicts = yield Judge(tuple(trial.original.exchanged(place, trial.unknown).text for place in places))
    return [verdict.score - trial.first.score for verdict in verdicts]


def first_best(values: Sequence[float], noise: float = 0.0) -> int:
    """The first of the values that are as good as the largest: but for ``noise`` and a hundred-thousandth."""
    bound = _bound(max(values), noise)
    return next(i for i, value in enumerate(values) if value >= bound)


def _bound(largest: float, noise: float) -> float:
    """Return the smallest value that is as good as the largest."""
    return largest - noise - _EQUAL * abs(largest)


def ranked(places: Sequence[int], values: Sequence[float], noise: float = 0.0) -> list[int]:
    """Places by falling value, :func:`first_best` first."""
    falling = sorted(zip(values, places, strict=True), key=lambda pair: -pair[0])
    order: list[int] = []
    equal: list[int] = []  # a heap of the places whose values are as good as the largest that is left
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


def same_part_of_speech(trial: Trial, place: int, candidates: Sequence[str], *, verbs_as_nouns: bool) -> list[str]:
    """The candidates that the tagger gives the word's tag; a noun may stand for a verb and the reverse, if allowed."""
    wanted = _tag(trial, place, trial.words.words[place])
    tags = {candidate: _tag(trial, place, candidate) for candidate in candidates}
    equal = {wanted, "NOUN", "VERB"} if verbs_as_nouns and wanted in ("NOUN", "VERB") else {wanted}
    return [candidate for candidate in candidates if tags[candidate] in equal]


def _tag(trial: Trial, place: int, word: str) -> str:
    words = trial.words.words
    begin = max(0, place - TAGGED_AROUND)
    context = (*words[begin:place], word, *words[place + 1 : place + 1 + TAGGED_AROUND])
    return trial.resources.tagger.tags(context)[place - begin]


def similar(
    trial: Trial,
    place: int,
    candidates: Sequence[str],
    *,
    minimum: float,
    window: int | None = None,
    to_original: bool = True,
) -> Generator[Request, Any, list[tuple[str, float | None]]]:
    """The candidates that leave the text similar enough, with their similarities.

    Args:
        trial: the attack.
        place: the word that is exchanged.
        candidates: for it.
        minimum: the smallest cosine, as published for USE; another encoder has its own in its place.
        window: words around the place that are compared; a text with fewer words passes unseen, as in TextAttack.
        to_original: compare with the original, not with the text as it is now.
    """
    if window is not None and len(trial.original.words) < window:
        return [(candidate, None) for candidate in candidates]
    reference = trial.original if to_original else trial.words
    texts = [trial.words.exchanged(place, candidate) for candidate in candidates]
    if window is None:
        pairs = [(reference.text, text.text) for text in texts]
    else:
        pairs = [(reference.around(place, window), text.around(place, window)) for text in texts]
    cosines = (yield Compare(tuple(pairs))) if pairs else []
    bound = trial.resources.similarity.threshold(minimum)
    return [(word, cosine) for word, cosine in zip(candidates, cosines, strict=True) if cosine >= bound]


# --- taking ------------------------------------------------------------------------------------------------------


def take_best(trial: Trial, place: int, options: Options) -> Generator[Request, Any, bool]:
    """Ask about all candidates for a place and take the best; whether the goal is reached.

    Of those that reach the goal the most similar is taken, where similarities are known; otherwise the one that is
    nearest to it, if it is nearer than the text as it is.
    """
    trial.tried += 1
    if not options:
        return False
    texts = [trial.words.exchanged(place, candidate) for candidate, _ in options]
    verdicts = yield Judge(tuple(text.text for text in texts))

    best = _best(options, verdicts)
    nearer = verdicts[best].score > trial.verdict.score + max(verdicts[best].noise, trial.verdict.noise)
    if verdicts[best].reached or nearer:
        trial.take(place, texts[best], verdicts[best])
    return bool(verdicts[best].reached)


def _best(options: Options, verdicts: Sequence[Verdict]) -> int:
    field = [i for i, verdict in enumerate(verdicts) if verdict.reached] or list(range(len(verdicts)))
    similarities = [options[i][1] for i in field]
    if verdicts[field[0]].reached and None not in similarities:
        most = max(s for s in similarities if s is not None)
        field = [i for i, s in zip(field, similarities, strict=True) if s is not None and s >= most - _SAME_SIMILARITY]
    return field[first_best([verdicts[i].score for i in field], max(verdicts[i].noise for i in field))]
