"""Shares of held-out queries that find a made passage, or other passages, among their nearest documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.attacks.metrics import rate
from holdfast.encoding import Exact
from holdfast.evaluation.dense_search import DECIMALS
from holdfast.evaluation.intervals import mean_interval

DEPTHS = (1, 10, 20)
"""Depths k of the top k."""
HEADLINE = 10
"""The depth of ``success_rate``."""
DRAWS = 20
"""Draws of documents and of random texts, as controls."""

_QUERIES_AT_ONCE = 256

Ranks = npt.NDArray[np.int64]


def _blocks(queries: Exact, corpus: Exact) -> Iterator[tuple[slice, Exact]]:
    """Yield blocks of queries with their rounded similarities to the n documents, (rows, n)."""
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        rows = slice(start, start + _QUERIES_AT_ONCE)
        yield rows, np.round(queries[rows] @ corpus.T, DECIMALS)


def ranks_of(queries: Exact, corpus: Exact, passages: Exact) -> Ranks:
    """Return the rank of the best passage among the documents for each query, from 1, (Q,); a tie counts against it.

    Args:
        queries: vectors of Q queries, (Q, d), whose dot products with documents are the similarities.
        corpus: vectors of the documents, (n, d).
        passages: vectors of the added passages, (m, d).
    """
    return ranks_of_each(queries, corpus, [passages])[0]


def ranks_of_each(queries: Exact, corpus: Exact, sets: Sequence[Exact]) -> list[Ranks]:
    """Return `ranks_of` for each of several sets of passages; the corpus is searched once."""
    found = np.zeros((len(sets), len(queries)), dtype=np.int64)
    for rows, among in _blocks(queries, corpus):
        for number, passages in enumerate(sets):
            best = np.round(queries[rows] @ passages.T, DECIMALS).max(axis=1, keepdims=True)
            found[number, rows] = 1 + (among >= best).sum(axis=1)
    return list(found)


def share_within(name: str, ranks: Ranks, *, seed: int) -> dict[str, float]:
    """Return the share ×100 of queries with a passage in the top k, ``NAME@k``, with its 95 % interval."""
    found: dict[str, float] = {}
    for k in DEPTHS:
        found |= rate(f"{name}@{k}", (ranks <= k).tolist(), seed)
    return found


def ordinary_share(queries: Exact, corpus: Exact, count: int, *, seed: int) -> dict[str, float]:
    """Return the share of queries with one of ``count`` random documents of the corpus in the top k, ``ordinary@k``.

    It is the mean over `DRAWS` draws; the interval is over the queries.
    """
    rng, count = np.random.default_rng(seed), min(count, len(corpus) - 1)
    draws = [rng.choice(len(corpus), count, replace=False) for _ in range(DRAWS)]
    ranks = np.zeros((DRAWS, len(queries)), dtype=np.int64)
    for rows, among in _blocks(queries, corpus):
        for number, places in enumerate(draws):
            own = among[:, places]
            best = own.max(axis=1, keepdims=True)
            ranks[number, rows] = 1 + (among >= best).sum(axis=1) - (own >= best).sum(axis=1)
    return mean_share("ordinary", list(ranks), seed=seed)


def mean_share(name: str, draws: Sequence[Ranks], *, seed: int) -> dict[str, float]:
    """Return `share_within` averaged over several draws of passages; the interval is over the queries."""
    found: dict[str, float] = {}
    for k in DEPTHS:
        shares = (np.stack(draws) <= k).mean(axis=0)
        low, high = mean_interval(shares, seed=seed)
        values = {f"{name}@{k}": float(shares.mean()), f"{name}@{k}_low": low, f"{name}@{k}_high": high}
        found |= {each: 100.0 * value for each, value in values.items()}
    return found


def headline(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return ``success_rate`` with its interval: success at the depth `HEADLINE`, as other attacks name it."""
    return {f"success_rate{end}": metrics[f"success@{HEADLINE}{end}"] for end in ("", "_low", "_high")}


def won_queries(queries: Exact, corpus: Exact, passages: Exact, texts: Sequence[str]) -> list[tuple[int, str]]:
    """Return, for each passage, how many queries have it in the top `HEADLINE`, and the query that it is nearest to."""
    found = []
    each = ranks_of_each(queries, corpus, [passage[None] for passage in passages])
    for passage, ranks in zip(passages, each, strict=True):
        nearest = int(np.argmax(np.round(queries @ passage, DECIMALS)))
        found.append((int((ranks <= HEADLINE).sum()), texts[nearest]))
    return found
