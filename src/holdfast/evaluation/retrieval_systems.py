"""Systems that answer the queries of a collection: the encoder, a lexical search, both, or any on corrected queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.dense_search import Positions

Correct = Callable[[str], str]
"""A function that corrects a query."""

Similarities = Callable[[Sequence[str]], npt.NDArray[np.float64]]
"""A function from Q queries to the encoder's similarities of each to all documents, (Q, documents), rounded."""


@dataclass(frozen=True)
class RetrievalSystem:
    """A way to answer queries.

    Attributes:
        name: its name in results: "encoder", "bm25", "hybrid" (both), "spelling" (the encoder on corrected queries),
            "bm25+spelling", "hybrid+spelling".
        rank: returns the positions of the best k documents of each query from the texts of all documents, the queries
            and k; None: the encoder that is evaluated takes part.
        correction: returns a function that corrects a query, from the texts of all documents; None: queries stay as
            they are.
        record: what decides its results, for the protocol.
        rank_with_encoder: as `rank`, with the similarities of the encoder before k; None: the encoder alone, or `rank`.
    """

    name: str
    rank: Callable[[Iterable[str], Sequence[str], int], Positions] | None = None
    correction: Callable[[Iterable[str]], Correct] | None = None
    record: str = ""
    rank_with_encoder: Callable[[Iterable[str], Sequence[str], Similarities, int], Positions] | None = None


ENCODER = RetrievalSystem("encoder")
