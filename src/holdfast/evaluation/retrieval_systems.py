"""Systems that answer the queries of a collection: the encoder, a lexical search, or either on corrected queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.evaluation.dense_search import Positions

Correct = Callable[[str], str]
"""A function that corrects a query."""


@dataclass(frozen=True)
class RetrievalSystem:
    """A way to answer queries.

    Attributes:
        name: its name in results: "encoder", "bm25", "spelling" (the encoder on corrected queries), "bm25+spelling".
        rank: returns the positions of the best k documents of each query from the texts of all documents, the queries
            and k; None: the encoder that is evaluated.
        correction: returns a function that corrects a query, from the texts of all documents; None: queries stay as
            they are.
        record: what decides its results, for the protocol.
    """

    name: str
    rank: Callable[[Iterable[str], Sequence[str], int], Positions] | None = None
    correction: Callable[[Iterable[str]], Correct] | None = None
    record: str = ""


ENCODER = RetrievalSystem("encoder")
