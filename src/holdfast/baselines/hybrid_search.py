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
# Sums of z-scores that are closer than this differ by the order of the documents in sums over them, and count as ties.
_DECIMALS_OF_SUM = DECIMALS + 3


@dataclass(frozen=True)
class HybridSettings:
    """Settings of the hybrid search.

    Attributes:
        weight: the weight of the lexical score beside the encoder's, which has 1.
        letters: number of letters of a group.
    """

    weight: float = 0.5
    letters: int = 4

    def record(self) -> str:
        """Return what decides the results, for the protocol."""
        return (
            f"z-score of the encoder's similarities + {self.weight:g} x z-score of BM25, each over all documents for "
            f"each query; {GRAM_RECORD.format(letters=self.letters)}"
        )


def rank_by_both(
    documents: Iterable[str],
    queries: Sequence[str],
    similarities: Similarities,
    k: int,
    settings: HybridSettings | None = None,
) -> Positions:
    """Return the positions of the k best documents of each query by the encoder and by BM25, (queries, k).

    The score of a document is the z-score of its similarity to the query plus `HybridSettings.weight` times the z-score
    of its BM25 score over letter groups. Mean and standard deviation are those of all documents for this query, and all
    documents are ranked. Scores without variance count 0: if no document has a group of the query, the ranking is the
    encoder's. On a tie the earlier document comes first; places beyond the number of documents are -1.

    Raises:
        UserError: bm25s is not installed.
    """
    chosen = settings or HybridSettings()
    lexical = gram_scores(documents, chosen.letters)
    ranked = []
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        some = queries[start : start + _QUERIES_AT_ONCE]
        for query, own in zip(some, similarities(some), strict=True):
            total = z_scores(own) + chosen.weight * z_scores(lexical(query))
            ranked.append(best_positions(np.round(total, _DECIMALS_OF_SUM), k, above=-np.inf))
    return np.stack(ranked)


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
