"""The making of passages: groups of fitted queries, and the steps of one passage per group."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.attacks.poisoning.mean_similarity import MeanSimilarity, SearchSpace
from holdfast.attacks.poisoning.poison_queries import begin_passage, grouped
from holdfast.attacks.poisoning.poison_recipe import Group, Passage, PoisonRecipe
from holdfast.encoding import Exact

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

KEPT_EVERY = 10
"""Steps after which the state of a passage is kept."""


@dataclass(frozen=True)
class Attacked:
    """The encoder, the corpus and the groups of queries that passages are made for.

    Attributes:
        space: the encoder.
        corpus: n different documents.
        vectors: their vectors, (n, d).
        groups: groups of the fitted queries.
        seed: random seed of the steps.
    """

    space: SearchSpace
    corpus: Sequence[str]
    vectors: Exact
    groups: Sequence[Group]
    seed: int


def query_groups(space: SearchSpace, fitted: Sequence[str], vectors: Exact, count: int, *, seed: int) -> list[Group]:
    """Return ``count`` groups of n fitted queries, by k-means of their vectors (n, d), as the space gives them.

    Raises:
        UserError: there are fewer different queries than groups.
    """
    labels = grouped(vectors, count, seed=seed)
    return [
        Group(
            [text for text, label in zip(fitted, labels, strict=True) if label == number],
            MeanSimilarity(space, vectors[labels == number]),
        )
        for number in range(count)
    ]


def make_passage(
    recipe: PoisonRecipe,
    number: int,
    attacked: Attacked,
    resources: Resources,
    *,
    bound: float | None = None,
    begun: Passage | None = None,
    keep: Callable[[Passage], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Passage:
    """Make the passage of a group of queries.

    The random numbers of a step depend on the seed, the recipe, the group and the number of the step alone: a passage
    that was begun before ends like one that was made at once.

    Args:
        recipe: the recipe.
        number: number of the group.
        attacked: what it is made against.
        resources: of the recipe.
        bound: largest perplexity of a natural text.
        begun: the passage so far; None: it begins.
        keep: called with the passage at its begin, after every `KEPT_EVERY` steps and at its end.
        stopped: returns True to end it before its last step.
    """
    group = attacked.groups[number]
    search = recipe.search(group, resources, bound)
    passage = begun
    if passage is None:
        passage = begin_passage(search, group.objective, attacked.corpus, attacked.vectors, recipe.words)
        keep(passage)
    while not recipe.ended(passage) and not stopped():
        rng = random.Random(f"{attacked.seed}/poison/{recipe.NAME}/{number}/{passage.step}")
        passage = search.step(passage, rng)
        if passage.step % KEPT_EVERY == 0 or recipe.ended(passage):
            keep(passage)
    return passage
