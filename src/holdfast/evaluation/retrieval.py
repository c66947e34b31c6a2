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

from holdfast.data.beir import Collection, Queries, collection_folder, read_collection
from holdfast.encoding import Progress, Vectors, encode_sentences
from holdfast.errors import UserError, emit_notice
from holdfast.evaluation.dense_search import Positions, rounded_similarities
from holdfast.evaluation.deployed_forms import SearchInForms
from holdfast.evaluation.retrieval_differences import RowValues, Values, differences, losses_of_forms
from holdfast.evaluation.retrieval_metrics import DEPTH, per_query, require_metrics
from holdfast.evaluation.retrieval_systems import ENCODER, Correct, RetrievalSystem
from holdfast.input_limits import Cuts
from holdfast.launch import is_first_process
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import Role

if TYPE_CHECKING:
    from holdfast.forms import Form
    from holdfast.user_functions import SentenceEncoder

TASK = "retrieval"

# Documents that are encoded and searched at once: enough for batches of similar length.
_DOCUMENTS_AT_ONCE = 16_384

Ranked = Mapping[str, npt.NDArray[np.int64]]
"""The positions of the best documents of each query, (k,), by the text of the query."""


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
    forms: Sequence[Form] = (),
) -> list[dict[str, Any]]:
    """Return a row of results for each system, each form of the vectors and each file of queries.

    Queries and documents are encoded with the prompts and routes of their sides. The similarity is that of the model
    (`similarity_fn_name`), cosine if it names none. Documents are read, encoded and
    searched in blocks, so that memory holds neither their texts nor their vectors; a system with `rank_with_encoder`
    needs their vectors in memory, fp32. The search is exact. Of documents
    with equal similarity the earlier one in the file comes first. Queries without a relevant document are left out, and
    so is a query that is itself a document of the corpus from what it finds, unless it is relevant to itself.

    Args:
        model: the encoder of the queries, and of the documents unless ``options.index`` is given.
        collection: the collection, from `load_retrieval`.
        options: see `RetrievalOptions`.
        precision: precision of the encoders.
        progress: called with (texts done, queries and documents).
        shared: the processes that have joined share the encoding; only the first one returns rows.
        forms: forms of the documents' vectors besides the plain one; queries are float. Systems with BM25 have none.

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
    itself = collection.queries_in_corpus()
    depth = DEPTH + bool(itself)
    search = _DenseSearch(model, options.index, precision, shared, depth=depth, keep=keep, forms=forms)
    if dense:
        search.rank(collection, list(dict.fromkeys(dense)), progress)
    if shared and joined() and not is_first_process():
        return []
    rows: list[dict[str, Any]] = []
    values: RowValues = {}
    for system in options.systems:
        own = texts[system.name]
        for form, found in _ranked(system, collection, list(dict.fromkeys(_all(own))), search, depth).items():
            for queries, changed in zip(asked, own, strict=True):
                ranked = (
                    _without(found[text], itself.get(query)) for query, text in zip(queries.ids, changed, strict=True)
                )
                positions = np.stack(list(ranked))
                metrics = per_query(queries.ids, positions, collection.document_ids, collection.relevant)
                values[system.name, form, queries.name] = queries.ids, metrics
                row = _row(system, collection, queries, metrics)
                if left_out := sum(query in itself for query in queries.ids):
                    row["found_without_itself"] = left_out
                if system.rank is None:
                    row |= search.truncated(changed)
                if form is not None:
                    row |= {"form": form, "vectors": search.records[form]}
                rows.append({**row, "against": differences(values, system.name, form, queries.name)})
        losses = losses_of_forms(values, system.name)
        for row in (row for row in rows if row["system"] == system.name):
            row["against"] |= losses.get((row.get("form"), row["split"]), {})
    return rows


# --- the systems ---------------------------------------------------------------------------------------------------


class _DenseSearch:
    """The encoders of queries and documents, and the record of the texts that were cut.

    With ``keep``, the vectors of `rank` stay in memory for `similarities`.

    Attributes:
        ranked: the best documents of each query, by form of the vectors.
        records: the record of each form.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        index: SentenceEncoder | None,
        precision: ResolvedPrecision,
        shared: bool,
        *,
        depth: int,
        keep: bool,
        forms: Sequence[Form] = (),
    ) -> None:
        self._model, self._index, self._forms, self._depth = model, model if index is None else index, forms, depth
        self.ranked: dict[str | None, Ranked] = {}
        self.records: Mapping[str, dict[str, Any]] = {}
        self._precision, self._shared, self._keep = precision, shared, keep
        self._cuts, self._document_cuts = Cuts(kept={}), Cuts()
        self._queries: dict[str, Vectors] = {}
        self._documents: list[Vectors] = []

    def rank(self, collection: Collection, queries: Sequence[str], progress: Progress | None) -> None:
        """Find the best documents of some different queries, in all forms."""
        total, done = len(queries) + len(collection.document_ids), 0

        def report(now: int, _: int) -> None:
            if progress is not None:
                progress(done + now, total)

        vectors = self._encoded(self._model, queries, "query", self._cuts, report)
        done = len(queries)
        if self._keep:
            self._queries = dict(zip(queries, vectors, strict=True))
        nearest = SearchInForms(vectors, self._depth, similarity_of(self._model), self._forms)
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
        self.ranked = {form: dict(zip(queries, found, strict=True)) for form, found in nearest.positions()}
        self.records = nearest.records()

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
    system: RetrievalSystem, collection: Collection, queries: Sequence[str], search: _DenseSearch, depth: int
) -> Mapping[str | None, Ranked]:
    """Return the best documents of each query, by form of the vectors; with BM25 the plain form alone."""
    positions: Positions
    if system.rank is not None:
        positions = system.rank(collection.documents(), queries, depth)
    elif system.rank_with_encoder is not None:
        positions = system.rank_with_encoder(collection.documents(), queries, search.similarities, depth)
    else:
        return search.ranked
    return {None: dict(zip(queries, positions, strict=True))}


def _without(ranked: npt.NDArray[np.int64], place: int | None) -> npt.NDArray[np.int64]:
    """Return the first `DEPTH` of the ranked documents without the one at a place."""
    left = (ranked if place is None else ranked[ranked != place])[:DEPTH]
    return np.pad(left, (0, min(len(ranked), DEPTH) - len(left)), constant_values=-1)


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
