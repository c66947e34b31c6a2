"""An index of documents with the vectors of the original encoder, which the hardened one must go on searching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast.encoding import Progress, Vectors, encode_sentences, normalised
from holdfast.evaluation.dense_search import NearestDocuments, Positions
from holdfast.evaluation.retrieval import similarity_of
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import side_of

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

_QUERIES_AT_ONCE = 512
_SAMPLE = 1000
"""Documents from which a query's mean similarity is computed, about."""


@dataclass(frozen=True)
class OldIndex:
    """Documents and their vectors.

    Attributes:
        documents: N different texts.
        vectors: their vectors by the original encoder, (N, d); of unit length if the similarity is the cosine.
        similarity: name of the similarity of sentence-transformers.
    """

    documents: Sequence[str]
    vectors: Vectors
    similarity: str = "cosine"

    @classmethod
    def of(
        cls,
        original: SentenceEncoder,
        documents: Sequence[str],
        *,
        precision: ResolvedPrecision = "fp32",
        progress: Progress | None = None,
    ) -> OldIndex:
        """Encode documents with the original encoder and its prompt of documents."""
        role = side_of(original, "document")
        vectors = encode_sentences(original, documents, role=role, precision=precision, progress=progress)
        similarity = similarity_of(original)
        return cls(documents, normalised(vectors).astype(np.float32) if similarity == "cosine" else vectors, similarity)

    def nearest(self, queries: Vectors, k: int) -> Positions:
        """Return the positions of the k most similar documents, best first, (Q, k); k is at most N.

        Vectors that are not finite find what the zero vector finds: an encoder that a training has destroyed is
        measured, and not an error.
        """
        k = min(k, len(self.documents))
        queries = finite(queries)
        if self.similarity not in ("cosine", "dot"):
            search = NearestDocuments(queries, k, self.similarity)
            search.add(self.vectors)
            return search.positions
        import torch

        # Faster by three than NearestDocuments, which rounds every similarity so that ties do not depend on blocks.
        documents, found = torch.from_numpy(self.vectors).T, np.empty((len(queries), k), dtype=np.int64)
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            block = torch.from_numpy(queries[start : start + _QUERIES_AT_ONCE])
            found[start : start + len(block)] = (block @ documents).topk(k, dim=1).indices.numpy()
        return found

    def about_as_near(self, queries: Vectors, nearest: Positions, share: float) -> Positions:
        """Return which of the nearest documents are about as near as the first one; -1 in place of the others, (Q, k).

        Their similarity is less than the first one's by at most ``share`` of its lead over the query's mean similarity
        to the documents. So the result is the same whatever constant all similarities have in common.

        Args:
            queries: vectors, (Q, d).
            nearest: positions of their nearest documents, best first, from `nearest`, (Q, k).
            share: share of the lead.
        """
        import torch
        from sentence_transformers.util import SimilarityFunction

        asked = torch.from_numpy(finite(queries))
        paired = SimilarityFunction.to_similarity_pairwise_fn(self.similarity)
        columns = [paired(asked, torch.from_numpy(self.vectors[column])) for column in nearest.T]
        found = torch.stack(columns, dim=1).numpy()
        sample = torch.from_numpy(self.vectors[:: max(1, len(self.documents) // _SAMPLE)])
        mean = SimilarityFunction.to_similarity_fn(self.similarity)(asked, sample).mean(dim=1, keepdim=True).numpy()
        first = found[:, :1]
        return np.where(found >= first - share * (first - mean), nearest, -1)

    def similarities(self, queries: Vectors, positions: Positions) -> np.ndarray:
        """Return the cosine of each query with one document, (Q,)."""
        return np.asarray((normalised(queries) * normalised(self.vectors[positions])).sum(axis=1))


def finite(vectors: Vectors) -> Vectors:
    """Return the vectors, with zeros for those that are not finite."""
    fine = np.isfinite(vectors).all(axis=1, keepdims=True)
    return vectors if fine.all() else np.where(fine, vectors, np.float32(0.0))
