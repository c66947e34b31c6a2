"""The encoder and a lexical search together: the sum of their standardised scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from holdfast.baselines.lexical_search import GRAM_RECORD, gram_scores
from holdfast.evaluation.dense_search import DECIMALS, Positions, best_positions
from holdfast.evaluation.retrieval_systems import Similarities

# Size of the matrix of similarities that is in memory at once.
_QUERIES_AT_ONCE = 64
# Sums of z-scores that are closer than this may differ by rounding alone, and count as ties.
_DECIMALS_OF_SUM = DECIMALS + 3


@dataclass(frozen=True)
class HybridSettings:
    """Settings of the hybrid search.

    Attributes:
        weight: the weight of the lexical score beside the encoder's, which has 1.
        letters: number of letters of a group.
        candidates: number of best documents by the encoder, and by the lexical score, that are ranked by the sum.
    """

    weight: float = 0.5
    letters: int = 4
    candidates: int = 100

    def record(self) -> str:
        """Return what decides the results, for the protocol."""
        return (
            f"z-score of the encoder's similarities + {self.weight:g} x z-score of BM25, for each query over the "
            f"{self.candidates} best documents by either; {GRAM_RECORD.format(letters=self.letters)}"
        )


def rank_by_both(
    documents: Iterable[str],
    queries: Sequence[str],
    similarities: Similarities,
    k: int,
    settings: HybridSettings | None = None,
) -> Positions:
    """Return the positions of the k best documents of each query by the encoder and by BM25, (queries, k).

    Candidates are the best documents by the encoder and the best ones by BM25 over letter groups, both lists exact and
    joined: at most 2 max(k, `HybridSettings.candidates`). Their score is the z-score of the similarity plus
    `HybridSettings.weight` times the z-score of BM25; mean and standard deviation are those of the candidates, as over
    all documents the best BM25 score is the more deviations from the mean the more documents there are. Scores that do
    not differ count 0: if no document has a group of the query, the ranking is the encoder's. On a tie the earlier
    document comes first; places beyond the number of documents are -1.

    Source: a convex combination of normalised scores (Bruch, Gai and Ingber 2023, arXiv:2210.11934).

    Raises:
        UserError: bm25s is not installed.
    """
    chosen = settings or HybridSettings()
    lexical = gram_scores(documents, chosen.letters)
    ranked = []
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        some = queries[start : start + _QUERIES_AT_ONCE]
        for query, own in zip(some, similarities(some), strict=True):
            ranked.append(_best_by_sum(own, lexical(query), k, chosen))
    return np.stack(ranked)


def _best_by_sum(
    own: npt.NDArray[np.float64], lexical: npt.NDArray[np.float64], k: int, settings: HybridSettings
) -> Positions:
    """Return the positions of the k best documents of one query, (k,), from both scores of all, (documents,)."""
    depth = max(k, settings.candidates)
    found = np.union1d(best_positions(own, depth, above=-np.inf), best_positions(lexical, depth))
    found = found[found >= 0]  # -1 is an empty place; the others are in the order of the documents
    total = z_scores(own[found]) + settings.weight * z_scores(lexical[found])
    order = best_positions(np.round(total, _DECIMALS_OF_SUM), k, above=-np.inf)
    return np.where(order >= 0, found[order], -1)


def hybrid_rank(settings: HybridSettings) -> partial[Positions]:
    """Return `rank_by_both` with settings."""
    return partial(rank_by_both, settings=settings)


def z_scores(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return (scores - mean) / standard deviation of one query's scores, (n,); 0 if they do not differ."""
    deviation = scores.std()
    if deviation < 10.0**-DECIMALS:
        return np.zeros_like(scores)
    standardised: npt.NDArray[np.float64] = (scores - scores.mean()) / deviation
    return standardised
