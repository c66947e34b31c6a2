"""Metrics of a ranking of documents, computed by ir_measures."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.errors import NotInstalled
from holdfast.evaluation.dense_search import Positions

RETRIEVAL_METRICS: Mapping[str, str] = {
    "recall@1": "R@1",
    "recall@10": "R@10",
    "recall@100": "R@100",
    "ndcg@10": "nDCG@10",
    "mrr@10": "RR@10",
}
"""The metrics of a row, and their names in ir_measures.

``recall@k`` is the share of a query's relevant documents among the first k. If a query has one relevant document it is
also the share of queries that find it (``success@k``, or ``accuracy@k`` in sentence-transformers); with R of them
recall@1 is 1/R at most.
"""

DEPTH = 100
"""Number of ranked documents of a query: the largest k of the metrics."""


def require_metrics() -> None:
    """Check that ir_measures is installed.

    Raises:
        UserError: it is not; the message says how to get it.
    """
    if importlib.util.find_spec("ir_measures") is None:
        raise NotInstalled("retrieval needs ir_measures: pip install 'holdfast[retrieval]'")


def per_query(
    ids: Sequence[str], ranked: Positions, documents: Sequence[str], relevant: Mapping[str, Mapping[str, int]]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the value of each metric for each query, from 0 to 1: (n,) by the names of `RETRIEVAL_METRICS`.

    Args:
        ids: the ids of n queries, each with a relevant document.
        ranked: the positions of their best documents, (n, k), -1 for none.
        documents: the id of each document.
        relevant: the grades of the relevant documents, by query.

    Raises:
        UserError: ir_measures is not installed.
    """
    require_metrics()
    import ir_measures

    # trec_eval orders by score and breaks ties by id: scores without ties keep the order of the ranking.
    run = {
        query: {documents[place]: float(len(row) - rank) for rank, place in enumerate(row) if place >= 0}
        for query, row in zip(ids, ranked, strict=True)
    }
    asked = {query: dict(relevant[query]) for query in ids}
    measures = {ir_measures.parse_measure(name): metric for metric, name in RETRIEVAL_METRICS.items()}
    values = {metric: np.zeros(len(ids)) for metric in RETRIEVAL_METRICS}
    place_of = {query: place for place, query in enumerate(ids)}
    for found in ir_measures.iter_calc(list(measures), asked, run):
        values[measures[found.measure]][place_of[found.query_id]] = found.value
    return values
