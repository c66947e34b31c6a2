"""Exact search of the nearest documents of many queries, block by block, so that memory does not grow with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.encoding import Vectors
from holdfast.errors import UserError

Positions = npt.NDArray[np.int64]
"""Positions of documents in the collection, best first, (queries, k); -1 where there are fewer than k."""

DECIMALS = 6
"""Decimals of a similarity: smaller differences come from rounding in fp32, and count as ties."""

# Size of the matrix of similarities that is in memory at once.
_QUERIES_AT_ONCE = 1024
_DOCUMENTS_AT_ONCE = 2048


class NearestDocuments:
    """The k most similar documents of each query among the documents that were added.

    Of documents with equal similarity (to `DECIMALS` decimals) the earlier one comes first, whatever the block.

    Args:
        queries: vectors of Q queries, (Q, d).
        k: number of documents to keep.
        similarity: name of a similarity of sentence-transformers: "cosine", "dot", "euclidean" or "manhattan".

    Raises:
        UserError: a vector is not finite.
    """

    def __init__(self, queries: Vectors, k: int, similarity: str = "cosine") -> None:
        _check_finite(queries, "query")
        self._queries, self._k, self._similarity = queries, k, similarity
        self._added = 0
        self.positions: Positions = np.full((len(queries), k), -1, dtype=np.int64)
        self.scores: npt.NDArray[np.float64] = np.full((len(queries), k), -np.inf)

    def add(self, documents: Vectors) -> None:
        """Add the vectors (n, d) of the next n documents of the collection.

        Raises:
            UserError: a vector is not finite.
        """
        _check_finite(documents, "document")
        for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
            block = documents[start : start + _DOCUMENTS_AT_ONCE]
            for first in range(0, len(self._queries), _QUERIES_AT_ONCE):
                rows = slice(first, first + _QUERIES_AT_ONCE)
                self._merge(rows, rounded_similarities(self._queries[rows], block, self._similarity))
            self._added += len(block)

    def _merge(self, rows: slice, scores: npt.NDArray[np.float64]) -> None:
        """Merge the scores (queries, n) of the next documents into the best ones of some queries.

        Only a score above the lowest one kept can enter: on a tie the earlier document stays.
        """
        best, kept = self.scores[rows], self.positions[rows]
        row, column = np.nonzero(scores > best[:, -1:])
        if not len(row):
            return
        changed, row = np.unique(row, return_inverse=True)
        all_rows = np.concatenate([np.repeat(np.arange(len(changed)), self._k), row])
        all_scores = np.concatenate([best[changed].ravel(), scores[changed[row], column]])
        all_positions = np.concatenate([kept[changed].ravel(), self._added + column])
        # Unused places have no position and the score -inf: they come last.
        order = np.lexsort((all_positions, -all_scores, all_rows))
        starts = np.searchsorted(all_rows[order], np.arange(len(changed)))
        chosen = order[starts[:, None] + np.arange(self._k)]
        best[changed], kept[changed] = all_scores[chosen], all_positions[chosen]


def rounded_similarities(queries: Vectors, documents: Vectors, similarity: str) -> npt.NDArray[np.float64]:
    """Return the similarities of Q queries (Q, d) to n documents (n, d), (Q, n), rounded to `DECIMALS` decimals.

    Products and distances are rounded to as many decimals at the scale of their query's norm: those of vectors with
    norm 10 to 4, as fp32 has no more, and of vectors with norm 0.001 to 12.
    """
    import torch
    from sentence_transformers.util import SimilarityFunction

    score = SimilarityFunction.to_similarity_fn(similarity)
    scores = score(torch.from_numpy(queries), torch.from_numpy(documents))
    rows = np.asarray(scores.double().numpy(), dtype=np.float64)
    if similarity == "cosine":
        return np.round(rows, DECIMALS)
    norms = np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
    scales = np.where(norms > 0, norms, 1.0) ** (2 if similarity == "dot" else 1)
    factors = 10.0 ** (DECIMALS - np.round(np.log10(scales)))
    rounded: npt.NDArray[np.float64] = np.round(rows * factors) / factors
    return rounded


def best_positions(scores: npt.NDArray[np.float64], k: int, *, above: float = 0.0) -> Positions:
    """Return the positions of the k best scores of one query, (k,): on a tie the earlier one first.

    Scores that are not above a bound are left out; -1 stands in places that stay empty.
    """
    found = np.flatnonzero(scores > above)
    if len(found) > k:  # only those that reach the k-th best score, all of its ties included, are sorted
        found = found[scores[found] >= np.partition(scores[found], -k)[-k]]
    found = found[np.argsort(-scores[found], kind="stable")][:k]
    return np.pad(found, (0, k - len(found)), constant_values=-1)


def _check_finite(vectors: Vectors, what: str) -> None:
    if not np.isfinite(vectors).all():
        raise UserError(f"the model gives a {what} vectors that are not finite (NaN or infinity): nothing can be found")
