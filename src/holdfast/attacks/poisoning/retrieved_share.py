"""Shares of held-out queries that find a made passage, or other passages, among their nearest documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.encoding import Exact
from holdfast.evaluation.dense_search import DECIMALS
from holdfast.evaluation.intervals import mean_interval, rate_interval

DEPTHS = (1, 10, 20)
"""Depths k of the top k."""
HEADLINE = 10
"""The depth of ``success_rate``."""
DRAWS = 20
"""Draws of documents and of random texts, as controls."""

_QUERIES_AT_ONCE = 256

Ranks = npt.NDArray[np.int64]


def ranks_of(queries: Exact, corpus: Exact, passages: Exact) -> Ranks:
    """Return the rank of the best passage among the documents for each query, from 1, (Q,); a tie counts against it.

    Args:
        queries: vectors of Q queries, (Q, d), whose dot products with documents are the similarities.
        corpus: vectors of the documents, (n, d).
        passages: vectors of the added passages, (m, d).
    """
    found = np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        rows = slice(start, start + _QUERIES_AT_ONCE)
        best = np.round(queries[rows] @ passages.T, DECIMALS).max(axis=1, keepdims=True)
        found[rows] = 1 + (np.round(queries[rows] @ corpus.T, DECIMALS) >= best).sum(axis=1)
    return found


def share_within(name: str, ranks: Ranks, *, seed: int) -> dict[str, float]:
    """Return the share ×100 of queries with a passage in the top k, ``NAME@k``, with its 95 % interval."""
    found: dict[str, float] = {}
    for k in DEPTHS:
        low, high = rate_interval(ranks <= k, seed=seed)
        found |= _with_ends(f"{name}@{k}", float((ranks <= k).mean()), low, high)
    return found


def ordinary_share(queries: Exact, corpus: Exact, count: int, *, seed: int) -> dict[str, float]:
    """Return the share of queries with one of ``count`` random documents of the corpus in the top k, ``ordinary@k``.

    It is the mean over `DRAWS` draws; the interval is over the queries.
    """
    rng = np.random.default_rng(seed)
    ranks = []
    for _ in range(DRAWS):
        drawn = rng.choice(len(corpus), min(count, len(corpus) - 1), replace=False)
        ranks.append(ranks_of(queries, np.delete(corpus, drawn, axis=0), corpus[drawn]))
    return mean_share("ordinary", ranks, seed=seed)


def mean_share(name: str, draws: Sequence[Ranks], *, seed: int) -> dict[str, float]:
    """Return `share_within` averaged over several draws of passages; the interval is over the queries."""
    found: dict[str, float] = {}
    for k in DEPTHS:
        shares = (np.stack(draws) <= k).mean(axis=0)
        low, high = mean_interval(shares, seed=seed)
        found |= _with_ends(f"{name}@{k}", float(shares.mean()), low, high)
    return found


def _with_ends(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: 100.0 * value, f"{name}_low": 100.0 * low, f"{name}_high": 100.0 * high}


def headline(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return ``success_rate`` with its interval: success at the depth `HEADLINE`, as other attacks name it."""
    return {f"success_rate{end}": metrics[f"success@{HEADLINE}{end}"] for end in ("", "_low", "_high")}


def won_queries(queries: Exact, corpus: Exact, passages: Exact, texts: Sequence[str]) -> list[tuple[int, str]]:
    """Return, for each passage, how many queries have it in the top `HEADLINE`, and the query that it is nearest to."""
    found = []
    for passage in passages:
        ranks = ranks_of(queries, corpus, passage[None])
        nearest = int(np.argmax(np.round(queries @ passage, DECIMALS)))
        found.append((int((ranks <= HEADLINE).sum()), texts[nearest]))
    return found
