"""Retrieval with labels: how well an encoder finds the relevant documents of clean and of noisy queries.

A collection (`holdfast.data.beir`) may have its queries in several versions: as they were asked, mistyped, dictated,
translated. Each version has a row of results. The rows of one collection are paired query by query, so that the
difference between clean and noisy queries has an interval.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.data.beir import CLEAN, Collection, Queries, collection_folder, read_collection
from holdfast.encoding import Progress, Vectors, encode_sentences
from holdfast.errors import UserError, emit_notice
from holdfast.evaluation.comparison import Means, Sample, Shares, difference, resample
from holdfast.evaluation.dense_search import NearestDocuments, Positions, rounded_similarities
from holdfast.evaluation.retrieval_metrics import DEPTH, per_query, require_metrics
from holdfast.evaluation.retrieval_systems import ENCODER, Correct, RetrievalSystem
from holdfast.input_limits import Cuts
from holdfast.launch import is_first_process
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import Role

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

TASK = "retrieval"
SEED = 42
"""Seed of the bootstrap of differences between two rows."""

# Documents that are encoded and searched at once: enough for batches of similar length.
_DOCUMENTS_AT_ONCE = 16_384

Values = dict[str, npt.NDArray[np.float64]]
"""The value of each metric for each query, from 0 to 1."""


@dataclass(frozen=True)
class RetrievalOptions:
    """Options of retrieval, besides the model and the collection.

    Attributes:
        index: the encoder of the documents, if it is another one than that of the queries.
        systems: what answers the queries; the encoder comes first.
        qrels: the split of relevant documents; None: "test", or the only one.
    """

    index: SentenceEncoder | None = None
    systems: Sequence[RetrievalSystem] = (ENCODER,)
    qrels: str | None = None


def is_retrieval(task: str) -> bool:
    """Return True for the names ``retrieval`` and ``retrieval:NAME``."""
    return task.partition(":")[0] == TASK


def load_retrieval(task: str, *, data: Path | None = None, qrels: str | None = None) -> Collection:
    """Read the collection of the task ``retrieval`` (the data folder itself) or ``retrieval:NAME`` (a folder in it).

    Raises:
        UserError: it is missing or malformed, no query has a relevant document, or ir_measures is not installed.
    """
    require_metrics()
    name = task.partition(":")[2] or None
    collection = read_collection(collection_folder(name, data), qrels=qrels)
    missing = set(itertools.chain.from_iterable(collection.relevant.values())) - set(collection.document_ids)
    if missing:
        emit_notice(
            f"{collection.folder}: {len(missing):,} relevant document(s) of qrels/{collection.qrels} are not in "
            f"{collection.corpus.name}, such as {min(missing)!r}: they count as not found"
        )
    for queries in collection.queries:
        if not any(query in collection.relevant for query in queries.ids):
            raise UserError(
                f"{collection.folder}: no query of {queries.name}.jsonl has a relevant document in "
                f"qrels/{collection.qrels}: the ids of both must be the same"
            )
    return collection


def evaluate_retrieval(
    model: SentenceEncoder,
    collection: Collection,
    options: RetrievalOptions | None = None,
    *,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    shared: bool = False,
) -> list[dict[str, Any]]:
    """Return a row of results for each system and each file of queries.

    Queries and documents are encoded with the prompts and routes of their sides. The similarity is that of the model
    (`similarity_fn_name`), cosine if it names none. Documents are read, encoded and
    searched in blocks, so that memory holds neither their texts nor their vectors; a system with `rank_with_encoder`
    needs their vectors in memory, fp32. The search is exact. Of documents
    with equal similarity the earlier one in the file comes first. Queries without a relevant document are left out.

    Args:
        model: the encoder of the queries, and of the documents unless ``options.index`` is given.
        collection: the collection, from `load_retrieval`.
        options: see `RetrievalOptions`.
        precision: precision of the encoders.
        progress: called with (texts done, queries and documents).
        shared: the processes that have joined share the encoding; only the first one returns rows.

    Returns:
        Rows ``{task, split, n, metrics, system, data, …}``; ``split`` is the name of the file of queries, ``metrics``
        are ×100 (see `RETRIEVAL_METRICS`), ``items`` the values of each query, and ``against`` has the differences to
        the clean queries (``clean``) and to the encoder alone (``encoder``) with intervals.

    Raises:
        UserError: the dimensions of queries and documents differ, or vectors are not finite.
    """
    from holdfast.distributed import joined

    options = options or RetrievalOptions()
    asked = [_answerable(queries, collection) for queries in collection.queries]
    texts = _corrected(options.systems, collection, asked)
    dense = [text for system in options.systems if system.rank is None for text in _all(texts[system.name])]
    keep = any(system.rank_with_encoder is not None for system in options.systems)
    search = _DenseSearch(model, options.index, precision, shared, keep=keep)
    ranked = search.rank(collection, list(dict.fromkeys(dense)), progress) if dense else {}
    if shared and joined() and not is_first_process():
        return []
    rows: list[dict[str, Any]] = []
    values: dict[tuple[str, str], tuple[Sequence[str], Values]] = {}
    for system in options.systems:
        own = texts[system.name]
        by_system = _ranked(system, collection, list(dict.fromkeys(_all(own))), search)
        found = ranked if by_system is None else by_system
        for queries, changed in zip(asked, own, strict=True):
            positions = np.stack([found[text] for text in changed])
            metrics = per_query(queries.ids, positions, collection.document_ids, collection.relevant)
            values[system.name, queries.name] = queries.ids, metrics
            row = _row(system, collection, queries, metrics)
            if system.rank is None:
                row |= search.truncated(changed)
            rows.append({**row, "against": _differences(values, system.name, queries.name)})
    return rows


# --- the systems ---------------------------------------------------------------------------------------------------


class _DenseSearch:
    """The encoders of queries and documents, and the record of the texts that were cut.

    With ``keep``, the vectors of `rank` stay in memory for `similarities`.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        index: SentenceEncoder | None,
        precision: ResolvedPrecision,
        shared: bool,
        *,
        keep: bool,
    ) -> None:
        self._model, self._index = model, model if index is None else index
        self._precision, self._shared, self._keep = precision, shared, keep
        self._cuts, self._document_cuts = Cuts(kept={}), Cuts()
        self._queries: dict[str, Vectors] = {}
        self._documents: list[Vectors] = []

    def rank(
        self, collection: Collection, queries: Sequence[str], progress: Progress | None
    ) -> Mapping[str, npt.NDArray[np.int64]]:
        """Return the positions of the best documents of each of some different queries, (k,)."""
        total, done = len(queries) + len(collection.document_ids), 0

        def report(now: int, _: int) -> None:
            if progress is not None:
                progress(done + now, total)

        vectors = self._encoded(self._model, queries, "query", self._cuts, report)
        done = len(queries)
        if self._keep:
            self._queries = dict(zip(queries, vectors, strict=True))
        nearest = NearestDocuments(vectors, DEPTH, similarity_of(self._model))
        for block in _blocks(collection.documents()):
            documents = self._encoded(self._index, block, "document", self._document_cuts, report)
            if documents.shape[1] != vectors.shape[1]:
                raise UserError(
                    f"documents have {documents.shape[1]} dimensions and queries {vectors.shape[1]}: --index takes an "
                    "encoder with as many as the model"
                )
            nearest.add(documents)
            if self._keep:
                self._documents.append(documents)
            done += len(block)
        return dict(zip(queries, nearest.positions, strict=True))

    def similarities(self, queries: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the similarities of Q queries to all documents, (Q, documents), rounded; of queries in `rank` only."""
        vectors = np.stack([self._queries[text] for text in queries])
        name = similarity_of(self._model)
        return np.concatenate([rounded_similarities(vectors, block, name) for block in self._documents], axis=1)

    def _encoded(
        self, model: SentenceEncoder, texts: Sequence[str], role: Role, cuts: Cuts, progress: Progress
    ) -> Vectors:
        return encode_sentences(
            model, texts, role=role, precision=self._precision, progress=progress, shared=self._shared, cuts=cuts
        )

    def truncated(self, queries: Sequence[str]) -> dict[str, Any]:
        """Return the entries of a row on cut texts: of its distinct queries, and of the documents."""
        return {"truncated": self._cuts.among(queries).record(), "truncated_documents": self._document_cuts.record()}


def similarity_of(model: SentenceEncoder) -> str:
    """Return the name of the similarity that a model was made for; "cosine" if it names none."""
    return str(getattr(model, "similarity_fn_name", None) or "cosine")


def _blocks(documents: Iterator[str]) -> Iterator[list[str]]:
    while block := list(itertools.islice(documents, _DOCUMENTS_AT_ONCE)):
        yield block


def _ranked(
    system: RetrievalSystem, collection: Collection, queries: Sequence[str], search: _DenseSearch
) -> Mapping[str, npt.NDArray[np.int64]] | None:
    """Return the positions of the best documents of each query, (k,); None for a system that is the encoder alone."""
    positions: Positions
    if system.rank is not None:
        positions = system.rank(collection.documents(), queries, DEPTH)
    elif system.rank_with_encoder is not None:
        positions = system.rank_with_encoder(collection.documents(), queries, search.similarities, DEPTH)
    else:
        return None
    return dict(zip(queries, positions, strict=True))


def _corrected(
    systems: Sequence[RetrievalSystem], collection: Collection, asked: Sequence[Queries]
) -> dict[str, list[list[str]]]:
    """Return the texts of each file of queries as each system gets them, by the name of the system."""
    made: dict[Any, Correct] = {}  # a correction reads all documents: it is made once for all systems
    texts = {}
    for system in systems:
        if system.correction is not None and system.correction not in made:
            made[system.correction] = system.correction(collection.documents())
        correct = made.get(system.correction, str)
        texts[system.name] = [[correct(text) for text in queries.texts] for queries in asked]
    return texts


def _all(texts: Sequence[Sequence[str]]) -> Iterator[str]:
    return itertools.chain.from_iterable(texts)


# --- rows ----------------------------------------------------------------------------------------------------------


def _answerable(queries: Queries, collection: Collection) -> Queries:
    """Return the queries that have a relevant document."""
    kept = [place for place, query in enumerate(queries.ids) if query in collection.relevant]
    ids, texts = ([values[place] for place in kept] for values in (queries.ids, queries.texts))
    return replace(queries, ids=ids, texts=texts)


def _row(system: RetrievalSystem, collection: Collection, queries: Queries, metrics: Values) -> dict[str, Any]:
    whole = next(found for found in collection.queries if found.name == queries.name)
    digest = hashlib.sha256(f"{collection.sha256} {queries.sha256}".encode()).hexdigest()
    return {
        "task": TASK,
        "split": queries.name,
        "n": len(queries.ids),
        "metrics": {name: 100.0 * float(values.mean()) for name, values in metrics.items()},
        "system": system.name,
        **({} if queries.noise is None else {"noise": queries.noise}),
        "data": collection.name,
        "qrels": collection.qrels,
        "documents": len(collection.document_ids),
        "without_relevant": len(whole.ids) - len(queries.ids),
        "data_sha256": digest,
        "source": str(collection.folder),
        "items": {name: np.round(values, 6).tolist() for name, values in metrics.items()},
    }


def retrieval_sample(values: npt.ArrayLike) -> Sample:
    """Return the sample of one metric's values, from 0 to 1, of V systems on n queries: (V, n); scores are ×100.

    If all values are 0 or 1, the sample is one of right and wrong answers.
    """
    array = np.asarray(values, dtype=np.float64)
    return Shares(array) if np.isin(array, (0.0, 1.0)).all() else Means(100.0 * array)


def _differences(
    values: Mapping[tuple[str, str], tuple[Sequence[str], Values]], system: str, name: str
) -> dict[str, dict[str, Any]]:
    """Return the differences of a row to the clean queries of its system, and to the encoder on its queries."""
    baselines = {"clean": (system, CLEAN), "encoder": (ENCODER.name, name)}
    return {
        baseline: _difference(values[key], values[system, name])
        for baseline, key in baselines.items()
        if key != (system, name) and key in values
    }


def _difference(baseline: tuple[Sequence[str], Values], other: tuple[Sequence[str], Values]) -> dict[str, Any]:
    """Return ``{n, METRIC: {difference, low, high, p}}`` over the n queries that two rows share."""
    place_of = {query: place for place, query in enumerate(baseline[0])}
    pairs = [(place_of[query], place) for place, query in enumerate(other[0]) if query in place_of]
    if not pairs:
        return {"n": 0}
    first, second = np.array(pairs).T
    found: dict[str, Any] = {"n": len(pairs)}
    for metric in other[1]:
        sample = retrieval_sample(np.stack([baseline[1][metric][first], other[1][metric][second]]))
        made = difference([resample(sample, seed=SEED, name=metric)], 1, seed=SEED)
        found[metric] = {"difference": made.difference, "low": made.low, "high": made.high, "p": made.p}
    return found
