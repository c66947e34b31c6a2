"""Queries of a poisoning: those that passages are fitted to, in groups, and those that measure them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.attacks.poisoning.mean_similarity import MeanSimilarity
from holdfast.attacks.poisoning.poison_recipe import Passage, PassageSearch
from holdfast.edits.words import Words
from holdfast.encoding import Exact
from holdfast.errors import UserError

LEAST = 10
"""Queries in each part."""
_TRIED = 8
_TRIED_MOST = 64
"""Texts that a passage may begin with, the most similar ones first: so many at once, and in all."""


@dataclass(frozen=True)
class QuerySplit:
    """Queries in two parts without a common text.

    Attributes:
        fitted: queries that passages are made for.
        held_out: queries that measure them; nothing reads them before all passages are made.
    """

    fitted: Sequence[str]
    held_out: Sequence[str]


def split_queries(texts: Sequence[str], *, seed: int, most: int | None = None, source: str = "queries") -> QuerySplit:
    """Split the different queries at random into two halves.

    Args:
        texts: the queries.
        seed: random seed of the split, and of the choice if there are more than ``most``.
        most: so many queries are used, at most.
        source: their name, for messages.

    Raises:
        UserError: there are fewer than 2 · `LEAST` different queries.
    """
    different = list(dict.fromkeys(texts))
    random.Random(f"{seed}/poison/queries").shuffle(different)
    used = different[:most]
    if len(used) < 2 * LEAST:
        raise UserError(
            f"{source}: {len(used)} different queries; at least {2 * LEAST} are needed, one half to make passages and "
            "the other half to measure them"
        )
    half = len(used) // 2
    return QuerySplit(used[:half], used[half:])


def grouped(vectors: Exact, groups: int, *, seed: int) -> npt.NDArray[np.int64]:
    """Return the group of each of n query vectors (n, d), (n,), by k-means (Zhong et al. 2023, section 3).

    Raises:
        UserError: there are fewer different vectors than groups.
    """
    from sklearn.cluster import KMeans

    different = len(np.unique(vectors, axis=0))
    if different < groups:
        raise UserError(f"--passages {groups}: there are {different} different query vectors to make passages for")
    labels: npt.NDArray[np.int64] = KMeans(groups, random_state=seed, n_init=4).fit_predict(vectors).astype(np.int64)
    return labels


def first_words(text: str, count: int) -> str:
    """Return the text up to the end of its ``count``-th word."""
    spans = Words.of(text).spans
    return text if len(spans) <= count else text[: spans[count - 1][1]]


def begin_passage(
    search: PassageSearch, objective: MeanSimilarity, corpus: Sequence[str], vectors: Exact, words: int
) -> Passage:
    """Return the passage before the first step: the begin of a document, the one nearest to the queries.

    Of the documents with the highest mean similarity, those that the search can begin with are cut, and the one whose
    begin has the highest mean similarity is taken. A document that is too short is continued with the next ones.

    Args:
        search: the search that goes on from it.
        objective: the mean similarity to the queries.
        corpus: the documents.
        vectors: their vectors, (n, d).
        words: the length.

    Raises:
        UserError: the search can begin with none of the `_TRIED_MOST` nearest documents.
    """
    order = np.argsort(-np.round(objective.of_vectors(vectors), 6), kind="stable")[:_TRIED_MOST]
    for first in range(0, len(order), _TRIED):
        texts = [_long_enough(corpus, order[place:], words) for place in range(first, min(first + _TRIED, len(order)))]
        usable = [text for text in search.begins(texts) if text is not None]
        if usable:
            scores = search.scores(usable)
            best = max(range(len(usable)), key=scores.__getitem__)
            return Passage.begin(usable[best], scores[best], encoded=len(usable))
    raise UserError(
        f"none of the {len(order)} documents nearest to a group of queries can begin a passage: they are empty or "
        "above the bound on the perplexity, or the tokeniser does not know their words"
    )


def _long_enough(corpus: Sequence[str], order: npt.NDArray[np.intp], words: int) -> str:
    """Return the first document, continued with the next ones until it has enough words, cut after ``words`` words."""
    parts: list[str] = []
    count = 0
    for place in order:
        parts.append(corpus[place])
        count += len(Words.of(corpus[place]).words)
        if count >= words:
            break
    return first_words(" ".join(parts), words)
