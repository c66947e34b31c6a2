"""Measurement of the goal: what an encoder finds with clean and noisy queries in an index of the original encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.audit.move_items import outcomes
from holdfast.encoding import Progress, Vectors, encode_sentences, normalised
from holdfast.evaluation.dense_search import Positions
from holdfast.hardening.goal.goal_queries import CLEAN, GoalTexts, QueryGroup
from holdfast.hardening.goal.old_index import OldIndex
from holdfast.input_limits import limited_to
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import side_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Array = npt.NDArray[np.float64]
Version = tuple[str, str]
"""The names of a group of queries and of a version of them."""

TEN = 10
NEAR = 0.05
"""Share of the first document's lead over the mean document by which another may be less similar, and be as good.

The order of documents that are nearer to each other than that changes with any training: of 3,246 questions in an index
of 20,000 sentences of Wikipedia, two hardened copies of all-MiniLM-L6-v2 found the first document again for 92.8 and
89.3 %, one that is as good for 99.8 and 99.2 % (2026-11-26; docs/harden.md).
"""
_NOTHING = -2
"""The place of a document that there is not; -1 stands for a relevant document that there is not."""
LEAST_QUERIES = 30
"""Queries of a group, at least, whose documents are known from the original encoder alone."""


@dataclass(frozen=True)
class Nearness:
    """The nearness of clean queries to what they were with the original encoder, each (n,).

    Attributes:
        cosine: cosine to the original encoder's vector of the query.
        same_top1: 1 where the first document is the same, else 0.
        same_top10: share of the first ten documents that are the same.
    """

    cosine: Array
    same_top1: Array
    same_top10: Array


@dataclass(frozen=True)
class Outcomes:
    """The findings of an encoder.

    Attributes:
        found: for each group and version, whether each query finds a relevant document first, (n,).
        labelled: names of the groups whose relevant documents are known without the original encoder.
        nearer: for each pair of changed texts, 1 where the one with the same meaning is nearer to the old vector of
            its text, 0 where the other one is, ½ where both are as near, (p,).
        nearness: see `Nearness`; None for the original encoder itself.
    """

    found: Mapping[Version, npt.NDArray[np.bool_]]
    labelled: tuple[str, ...]
    nearer: Array
    nearness: Nearness | None = None

    def clean(self) -> npt.NDArray[np.bool_]:
        """Return whether each clean query of the labelled groups finds a relevant document, (n,)."""
        parts = [self.found[name, CLEAN] for name in self.labelled]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


@dataclass(frozen=True)
class _Reference:
    """Vectors and first documents of the clean queries of a group, by the original encoder, and what they must find.

    Attributes:
        gold: positions of the documents that a query must find one of, (n, r); -1 where there are fewer than r.
        asked: whether a query is asked, (n,).
    """

    vectors: Vectors
    ten: Positions
    gold: Positions
    asked: npt.NDArray[np.bool_]


@dataclass
class Goal:
    """The measure of the goal, independent of any training.

    Documents have the vectors of the original encoder and its prompt of documents; queries are encoded by the encoder
    that is measured, with its prompt of queries. Of a group whose relevant documents are not known, a query must find
    the document that the original encoder finds first for the clean text, or one that is about as near (`NEAR`).
    Queries with ten such documents are not asked, and fewer than `LEAST_QUERIES` are no group.

    Args:
        original: the original encoder. It is used in the constructor only.
        index: the old index of the corpus, from `OldIndex.of`.
        texts: the queries and the pairs, from `holdfast.hardening.goal.goal_queries.goal_texts`.
        precision: precision of the encoders.
        max_seq_length: length limit in tokens while encoding; None: the encoder's.
        progress: called with (texts done, all texts) while the original encoder encodes the queries.

    Attributes:
        original_outcomes: what the original encoder itself finds.
        left_out: a line for each group that is not measured.
    """

    original: SentenceTransformer
    index: OldIndex
    texts: GoalTexts
    precision: ResolvedPrecision = "fp32"
    max_seq_length: int | None = None
    progress: InitVar[Progress | None] = None
    original_outcomes: Outcomes = field(init=False)

    def __post_init__(self, progress: Progress | None) -> None:
        model = self.original
        with limited_to(model, self.max_seq_length):
            self._indices = {
                group.name: OldIndex.of(model, group.collection, precision=self.precision)
                for group in self.texts.groups
                if group.collection is not None
            }
        encoded = self._encode(model, None, progress)
        self._references = {
            group.name: self._reference(group, encoded[group.name, CLEAN]) for group in self.texts.groups
        }
        self.left_out = [
            f"{group.name} are left out: of {asked.size} only {asked.sum()} have documents in the old index that are "
            f"clearly nearer than the others, and {LEAST_QUERIES} are needed"
            for group in self.texts.groups
            for asked in [self._references[group.name].asked]
            if not self._is_measured(group)
        ]
        self.original_outcomes = self._outcomes(encoded, self._nearer(model), None)
        del self.original  # its weights change in the training

    def measure(
        self,
        model: SentenceTransformer,
        correct: Callable[[str], str] | None = None,
        progress: Progress | None = None,
    ) -> Outcomes:
        """Measure an encoder.

        Args:
            model: an encoder with as many dimensions as the original. Its mode and random state are left as they were.
            correct: a function of a query's text that is applied before it is encoded, such as a spelling correction.
                The pairs of changed texts, which are no queries, are not measured then.
            progress: called with (texts done, all texts) while the queries are encoded.
        """
        encoded = self._encode(model, correct, progress)
        nearer = self._nearer(model) if correct is None else np.zeros(0)
        return self._outcomes(encoded, nearer, self._nearness(encoded))

    def _index(self, group: QueryGroup) -> OldIndex:
        return self._indices.get(group.name, self.index)

    def _nearest(self, group: QueryGroup, vectors: Vectors, k: int) -> Positions:
        """Return the first k documents of each query, best first, but for the document that the query is, (n, k).

        Where an index has too few documents, places at the end have `_NOTHING`.
        """
        if group.itself is None:
            return self._index(group).nearest(vectors, k)
        found = self._index(group).nearest(vectors, k + 1)
        own = found == group.itself[:, None]
        last = np.argsort(own, axis=1, kind="stable")
        return np.take_along_axis(np.where(own, _NOTHING, found), last, axis=1)[:, :k]

    def _reference(self, group: QueryGroup, vectors: Vectors) -> _Reference:
        ten = self._nearest(group, vectors, TEN)
        if group.relevant is not None:
            return _Reference(vectors, ten, group.relevant, np.ones(len(ten), dtype=bool))
        gold = self._index(group).about_as_near(vectors, ten, NEAR)
        return _Reference(vectors, ten, gold, gold[:, -1] < 0)

    def _is_measured(self, group: QueryGroup) -> bool:
        return group.relevant is not None or int(self._references[group.name].asked.sum()) >= LEAST_QUERIES

    def _encode(
        self, model: SentenceTransformer, correct: Callable[[str], str] | None, progress: Progress | None
    ) -> dict[Version, Vectors]:
        """Return the vectors of every version of every group; each different text is encoded once."""
        texts = {
            (group.name, name): [text if correct is None else correct(text) for text in own]
            for group in self.texts.groups
            for name, own in group.versions.items()
        }
        vectors = self._vectors(model, [text for own in texts.values() for text in own], progress)
        ends = np.cumsum([len(own) for own in texts.values()])
        return dict(zip(texts, np.split(vectors, ends[:-1]), strict=True))

    def _vectors(self, model: SentenceTransformer, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        with limited_to(model, self.max_seq_length):
            return encode_sentences(
                model, texts, role=side_of(model, "query"), precision=self.precision, progress=progress
            )

    def _nearer(self, model: SentenceTransformer) -> Array:
        pairs = self.texts.pairs
        if not pairs:
            return np.zeros(0)
        texts = [text for side in ("hold", "move") for text in (getattr(pair, side) for pair in pairs)]
        vectors = self._vectors(model, texts)
        places = np.array([pair.document for pair in pairs])
        hold, move = (self.index.similarities(each, places) for each in (vectors[: len(pairs)], vectors[len(pairs) :]))
        return outcomes(hold, move)

    def _outcomes(self, encoded: Mapping[Version, Vectors], nearer: Array, nearness: Nearness | None) -> Outcomes:
        found = {}
        for group in filter(self._is_measured, self.texts.groups):
            reference = self._references[group.name]
            for name in group.versions:
                first = self._nearest(group, encoded[group.name, name], 1)
                found[group.name, name] = (first == reference.gold).any(axis=1)[reference.asked]
        labelled = tuple(group.name for group in self.texts.groups if group.relevant is not None)
        return Outcomes(found, labelled, nearer, nearness)

    def _nearness(self, encoded: Mapping[Version, Vectors]) -> Nearness:
        cosines, first, ten = [], [], []
        for group in self.texts.groups:
            before, now = self._references[group.name], encoded[group.name, CLEAN]
            found = self._nearest(group, now, TEN)
            cosines.append((normalised(before.vectors) * normalised(now)).sum(axis=1))
            first.append((found[:, 0] == before.ten[:, 0]).astype(np.float64))
            ten.append((found[:, :, None] == before.ten[:, None, :]).any(axis=2).mean(axis=1))
        return Nearness(*(np.nan_to_num(np.concatenate(each)) for each in (cosines, first, ten)))
