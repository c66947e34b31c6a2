"""Audit items of retrieval: does a query still find its document, clean and in noise?

With ``--retrieval DIR`` the queries and documents are those of a labelled collection, with all its noisy versions.
Without labels, a sentence of each audited passage is the query that should find the passage. In both cases noise of
edits is put into the clean queries.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from holdfast.attacks.examples import Attempt
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.changed_copies import SHARE
from holdfast.audit.item_rows import Item, NotMeasured, absent, item
from holdfast.audit.planned_items import NOT_ENCODED, Planned
from holdfast.audit.vector_movement import WORST
from holdfast.audit.verdicts import judged, rate
from holdfast.data.beir import CLEAN
from holdfast.edits.edit import ENGLISH, Edit
from holdfast.edits.edit_table import HUMAN, SYNTHETIC
from holdfast.edits.words import Words
from holdfast.evaluation.dense_search import NearestDocuments
from holdfast.evaluation.intervals import rate_interval
from holdfast.evaluation.pseudo_queries import pseudo_queries, sentences_of
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval import load_retrieval, similarity_of
from holdfast.evaluation.retrieval_table import version_name

TASK = "audit-retrieval"
CLEAN_QUERIES = "clean"
NOISE = ("typing", "speech", "typos")
"""Names of the edits whose noise is put into the clean queries."""
ROWS = tuple((TASK, split) for split in (CLEAN_QUERIES, *NOISE))

LEAST_QUERIES = 20
_BUDGET_SHARE = 0.3
"""Largest share of the rest of the time that the documents of a collection may take."""


@dataclass(frozen=True)
class Query:
    """A query: its number, its text, and the positions of its relevant documents.

    ``itself`` is the position of a document that is the query and not relevant to it; it does not count as found.
    """

    number: int
    text: str
    relevant: frozenset[int]
    itself: int | None = None

    def first(self, positions: Sequence[int]) -> int:
        """Return the first of some positions that is not the query itself."""
        return next(int(place) for place in positions if place != self.itself)


@dataclass(frozen=True)
class _Queries:
    """Documents, and queries by version, the clean ones first."""

    documents: Sequence[str]
    versions: Mapping[str, Sequence[Query]]


def retrieval_items(context: AuditContext) -> Planned:
    """Plan the items of retrieval: the share of queries whose first document is relevant, by version of the queries.

    Raises:
        NotMeasured: there are too few queries, or a collection does not fit into the time.
    """
    found = _labelled(context) if context.settings.retrieval is not None else _of_passages(context)
    versions = {CLEAN_QUERIES: found.versions[CLEAN_QUERIES]}
    left_out: dict[str, str] = {}
    for name in (name for name in NOISE if context.selection.wants([(TASK, name)])):
        try:
            edit = _edit(context, name)
            versions[name] = [_with_noise(query, edit, context.settings.seed) for query in versions[CLEAN_QUERIES]]
        except NotMeasured as reason:
            left_out[name] = str(reason)
    versions |= {
        name: queries
        for name, queries in found.versions.items()
        if name != CLEAN_QUERIES and context.selection.wants([(TASK, name)])
    }
    # Documents first: without them nothing can be found.
    texts = [(0, text) for text in found.documents]
    texts += [(place, query.text) for queries in versions.values() for place, query in enumerate(queries)]
    return Planned(texts, lambda context: _measured(context, _Queries(found.documents, versions), left_out))


def _of_passages(context: AuditContext) -> _Queries:
    space = context.space
    drawn = pseudo_queries(space.texts, seed=context.settings.seed, most=context.texts_per_item)
    if len(drawn) < LEAST_QUERIES:
        raise NotMeasured(
            f"{len(drawn)} of the texts have two sentences or more: retrieval needs {LEAST_QUERIES} passages, or a "
            "labelled collection (--retrieval DIR)"
        )
    places: dict[str, set[int]] = {}
    for place, text in enumerate(space.texts):
        for sentence in sentences_of(text):
            places.setdefault(sentence, set()).add(place)
    queries = [Query(space.numbers[each.passage], each.text, frozenset(places[each.text])) for each in drawn]
    context.record["retrieval"] = {"queries": "a sentence of each passage", "documents": len(space.texts)}
    return _Queries(space.texts, {CLEAN_QUERIES: queries})


def _labelled(context: AuditContext) -> _Queries:
    collection = load_retrieval(RETRIEVAL, data=context.settings.retrieval)
    if CLEAN not in [own.name for own in collection.queries]:
        raise NotMeasured(f"{collection.folder} has no {CLEAN}.jsonl, the clean queries")
    documents = list(collection.documents())
    seconds = len(documents) * context.seconds_of(documents)
    if seconds > _BUDGET_SHARE * context.budget.left:
        raise NotMeasured(
            f"{len(documents):,} documents take about {seconds:,.0f} s: raise --max-seconds, or use holdfast evaluate "
            "--tasks retrieval"
        )
    position = {document: place for place, document in enumerate(collection.document_ids)}
    asked = [query for query in collection.queries[0].ids if query in collection.relevant]
    most = min(context.texts_per_item, len(asked))
    chosen = sorted(random.Random(f"{context.settings.seed}/retrieval").sample(range(len(asked)), most))
    number = {asked[place]: place for place in chosen}
    relevant = {query: frozenset(position[d] for d in collection.relevant[query] if d in position) for query in asked}
    itself = collection.queries_in_corpus()
    versions = {}
    for own in collection.queries:
        versions[version_name(own.name)] = [
            Query(number[query], text, relevant[query], itself.get(query))
            for query, text in zip(own.ids, own.texts, strict=True)
            if query in number
        ]
    context.record["retrieval"] = {
        "queries": f"{most} of {len(asked)} of {collection.folder}",
        "documents": len(documents),
        "sha256": collection.sha256,
    }
    return _Queries(documents, versions)


def _edit(context: AuditContext, name: str) -> Edit:
    """Return an edit by name, if it can be used on these texts."""
    edit = next((edit for edit in context.edits.side("hold") if name == edit.NAME), None)
    if edit is None:
        raise NotMeasured(context.edits.missing.get(name, f"the edit {name} cannot be made"))
    if edit.LANGUAGE == ENGLISH:
        context.require_english()
    return edit


def _with_noise(query: Query, edit: Edit, seed: int) -> Query:
    """Return the query after an edit; unchanged if the edit does not apply."""
    made = edit(query.text, random.Random(f"{seed}/{edit.NAME}/query/{query.number}"), SHARE)
    return query if made is None else replace(query, text=made.text)


# --- rows ----------------------------------------------------------------------------------------------------------


def _measured(context: AuditContext, asked: _Queries, left_out: Mapping[str, str]) -> list[Item]:
    if any(text not in context.vectors for text in asked.documents):
        raise NotMeasured(NOT_ENCODED)
    documents = context.side_vectors("document").vectors(asked.documents)
    form = None if context.form is None else context.form.form.fitted(documents, of="documents")
    documents = documents if form is None else form.documents(documents)
    clean: dict[int, bool] = {}
    items = []
    originals = {query.number: query.text for query in asked.versions[CLEAN_QUERIES]}
    for version, queries in asked.versions.items():
        known = [query for query in queries if query.text in context.vectors]
        if len(known) < LEAST_QUERIES:
            items.append(absent(TASK, NOT_ENCODED, version, side="hold"))
            continue
        vectors = context.side_vectors("query").vectors([query.text for query in known])
        vectors = vectors if form is None else form.queries(vectors)
        depth = 1 + any(query.itself is not None for query in known)
        nearest = NearestDocuments(vectors, depth, similarity_of(context.model))
        nearest.add(documents)
        firsts = [query.first(row) for query, row in zip(known, nearest.positions, strict=True)]
        found = np.array([place in query.relevant for query, place in zip(known, firsts, strict=True)])
        if version == CLEAN_QUERIES:
            clean = {query.number: bool(right) for query, right in zip(known, found, strict=True)}
        elif not any(clean.get(query.number) for query in known):
            items.append(absent(TASK, "no query finds its document when clean: none can be lost", version, side="hold"))
            continue
        examples = _examples(version, known, originals, clean, firsts, asked.documents)
        items.append(_item(context, version, known, found, clean, len(documents), examples))
    return items + [absent(TASK, reason, name, side="hold") for name, reason in left_out.items()]


def _item(
    context: AuditContext,
    version: str,
    queries: Sequence[Query],
    found: npt.NDArray[np.bool_],
    clean: Mapping[int, bool],
    documents: int,
    examples: Sequence[Mapping[str, object]],
) -> Item:
    """Create the item of one version; noisy ones are judged by the queries that found a document when clean."""
    share = 100.0 * float(found.mean())
    low, high = (100.0 * end for end in rate_interval(found, seed=context.settings.seed))
    chance = 100.0 * float(np.mean([len(query.relevant) for query in queries])) / documents
    metrics = {"found": share, "found_low": low, "found_high": high, "chance": chance}
    count = len(queries)
    if version == CLEAN_QUERIES:
        message = f"{share:.0f} % of the clean queries find their document among {documents:,}"
        measure = rate(100.0 - share, 100.0 - high, 100.0 - low)
    else:
        kept = np.array([right for query, right in zip(queries, found, strict=True) if clean.get(query.number)])
        count = len(kept)
        lost = 100.0 * (1.0 - float(kept.mean()))
        ends = [100.0 * end for end in rate_interval(~kept, seed=context.settings.seed)]
        metrics |= {"lost": lost, "lost_low": ends[0], "lost_high": ends[1]}
        measure = rate(lost, *ends)
        message = (
            f"{share:.0f} % of queries find their document ({version}); {lost:.0f} % of those found when clean are lost"
        )
    return item(
        *(TASK, version, len(queries), metrics, judged(count, measure), message),
        headline="found",
        side="hold",
        group=SYNTHETIC if version == "typos" else HUMAN,
        examples=examples,
        items={"text": [query.number for query in queries], "correct": found.astype(int).tolist()},
    )


def _examples(
    version: str,
    queries: Sequence[Query],
    originals: Mapping[int, str],
    clean: Mapping[int, bool],
    firsts: Sequence[int],
    documents: Sequence[str],
) -> list[dict[str, object]]:
    """Return queries that lost their document, with the document and the one found in its place."""
    rows: list[dict[str, object]] = []
    for query, first in zip(queries, firsts, strict=True):
        right = min(query.relevant, default=-1)
        if len(rows) == WORST:
            break
        if not clean.get(query.number) or first in query.relevant or right < 0:
            continue
        attempt = Attempt(
            number=query.number,
            recipe=f"retrieval.{version}",
            outcome="succeeded",
            original=originals[query.number],
            adversarial=query.text,
            before={"value": 1.0},
            after={"value": 0.0},
            words=len(Words.of(originals[query.number]).words),
            changed=(),
            queries=1,
            passes=1,
        )
        rows.append({**attempt.row(), "neighbours": [documents[right], documents[first]]})
    return rows
