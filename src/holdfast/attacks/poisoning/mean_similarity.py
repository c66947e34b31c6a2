"""The mean similarity of passages to a group of queries: what a made passage increases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.attacks.encoder_targets import finite_vectors
from holdfast.encoding import Exact, Progress, Vectors, normalised
from holdfast.errors import UserError
from holdfast.evaluation.retrieval import similarity_of
from holdfast.text_prompts import Role, side_of

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder


class SearchSpace:
    """Vectors of queries and documents whose dot product is the similarity of the model.

    Args:
        model: any encoder or function.
        source: its name, for messages.

    Raises:
        UserError: the similarity of the model is neither the cosine nor the dot product.
    """

    def __init__(self, model: SentenceEncoder, *, source: str) -> None:
        similarity = similarity_of(model)
        if similarity not in ("cosine", "dot"):
            raise UserError(
                f"{source} compares vectors by {similarity}: --goal poison needs the cosine or the dot product"
            )
        self.model, self.source, self.similarity = model, source, similarity
        self.document_role = side_of(model, "document")

    @property
    def is_cosine(self) -> bool:
        """True for the cosine: vectors are normalised."""
        return self.similarity == "cosine"

    def queries(self, texts: Sequence[str], progress: Progress | None = None) -> Exact:
        """Return the vectors of queries, (n, d) fp64, normalised for the cosine.

        Raises:
            UserError: a vector is not finite.
        """
        return self._vectors(texts, side_of(self.model, "query"), progress)

    def documents(self, texts: Sequence[str], progress: Progress | None = None) -> Exact:
        """Return the vectors of documents, (n, d) fp64, normalised for the cosine.

        Raises:
            UserError: a vector is not finite.
        """
        return self._vectors(texts, self.document_role, progress)

    def _vectors(self, texts: Sequence[str], role: Role | None, progress: Progress | None) -> Exact:
        vectors = finite_vectors(self.model, list(texts), source=self.source, role=role, progress=progress)
        return self.prepared(vectors)

    def prepared(self, vectors: Vectors) -> Exact:
        """Return the vectors of a model (n, d) as this space compares them: in fp64, normalised for the cosine."""
        return normalised(vectors) if self.is_cosine else vectors.astype(np.float64)


class MeanSimilarity:
    """The mean similarity of texts to a group of queries.

    Args:
        space: encodes the texts.
        queries: vectors of the queries, (n, d), as the space gives them.
    """

    def __init__(self, space: SearchSpace, queries: Exact) -> None:
        self.space = space
        self.centre: npt.NDArray[np.float64] = queries.mean(axis=0)

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the mean similarity of each of n texts, (n,)."""
        return self.of_vectors(self.space.documents(texts))

    def of_vectors(self, vectors: Exact) -> npt.NDArray[np.float64]:
        """Return the mean similarity of n documents (n, d), (n,): their products with the mean query vector."""
        found: npt.NDArray[np.float64] = vectors @ self.centre
        return found
