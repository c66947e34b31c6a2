"""Queries of the goal: parts of held-out texts, held-out queries, and a labelled collection, each clean and noisy."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.data.beir import CLEAN as CLEAN_FILE
from holdfast.data.beir import Collection, collection_folder, read_collection
from holdfast.edits.noise import Noise, needs_english, noisy
from holdfast.edits.words import Words
from holdfast.evaluation.pseudo_queries import pseudo_queries
from holdfast.evaluation.retrieval_table import version_name
from holdfast.hardening.goal.hold_out import key_of
from holdfast.hardening.goal.meaning_pairs import MeaningPair

TEXTS, QUERIES, COLLECTION = "texts", "queries", "collection"
"""Names of groups: queries made of held-out texts, held-out queries, queries of a labelled collection."""
CLEAN = "clean"

CROP = (5, 10)
"""Fewest and most consecutive words of a text that are a query for it."""
_LEAST_WORDS = 5
_LARGEST_CROP = 2 / 3  # of a text's words: a whole text would find itself


@dataclass(frozen=True)
class QueryGroup:
    """Queries of one kind in several versions, and what each must find.

    Attributes:
        name: the name.
        versions: the texts of n queries, by version, `CLEAN` first.
        relevant: positions of the relevant documents, (n, r), -1 where there are fewer than r; None: the document that
            the original encoder finds first for the clean text, and those that are about as near.
        collection: documents of the group's own index; None: the texts of the corpus.
        itself: the position of the document that a query is, and that it does not find, (n,), -1 if it is none; None:
            no query is a document.
    """

    name: str
    versions: Mapping[str, Sequence[str]]
    relevant: npt.NDArray[np.int64] | None
    collection: Sequence[str] | None = None
    itself: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class GoalTexts:
    """Everything that is encoded to measure the goal.

    Attributes:
        groups: the queries.
        pairs: changed texts, some with the same meaning and some with another, of documents of the corpus.
    """

    groups: Sequence[QueryGroup]
    pairs: Sequence[MeaningPair] = ()

    @property
    def queries(self) -> int:
        """The number of clean queries."""
        return sum(len(group.versions[CLEAN]) for group in self.groups)

    def query_texts(self) -> list[str]:
        """Return the texts of all queries, clean and noisy."""
        return [text for group in self.groups for own in group.versions.values() for text in own]


def goal_texts(
    documents: Sequence[str],
    held: Sequence[int],
    queries: Sequence[str],
    noise: Sequence[Noise],
    *,
    seed: int = 0,
    pairs: Sequence[MeaningPair] = (),
    collection: Collection | None = None,
    half: int | None = None,
) -> GoalTexts:
    """Make the queries of the goal.

    Args:
        documents: the documents of the old index, all different.
        held: positions of the held-out documents. A sentence of each, or some of its consecutive words, must find it.
        queries: held-out texts like those that are searched with; their noisy versions must find what the original
            encoder finds for the clean ones.
        noise: kinds of noise, each of which gives a version of all clean queries.
        seed: the random seed of parts and noise.
        pairs: changed texts, for `GoalTexts`.
        collection: a labelled collection, whose noisy queries are further versions.
        half: 0 or 1: only the queries of the collection in this half, by their hash; None: all.
    """
    groups = []
    made = [(place, part) for place in held if (part := part_of(documents[place], seed)) is not None]
    if made:
        relevant = np.array([[place] for place, _ in made], dtype=np.int64)
        groups.append(QueryGroup(TEXTS, _noisy_versions([part for _, part in made], noise, seed), relevant))
    if queries:
        groups.append(QueryGroup(QUERIES, _noisy_versions(queries, noise, seed), None))
    if collection is not None:
        groups.append(_labelled(collection, noise, seed, half))
    return GoalTexts(tuple(groups), tuple(pairs))


def part_of(text: str, seed: int = 0) -> str | None:
    """Return a query for a text: a sentence of a passage, else 5 to 10 consecutive words, at most two thirds of them.

    Texts of fewer than 5 words are their own queries; a text without a word has none, None. Where no blanks part words,
    characters are counted. The query depends on the text and the seed alone.
    """
    if drawn := pseudo_queries([text], seed=seed):
        return drawn[0].text
    spans = Words.of(text).units
    if len(spans) < _LEAST_WORDS:
        return text if spans else None
    rng = random.Random(f"{seed}/part/{text}")
    length = max(CROP[0] - 2, min(rng.randint(*CROP), int(_LARGEST_CROP * len(spans))))
    begin = rng.randint(0, len(spans) - length)
    return text[spans[begin][0] : spans[begin + length - 1][1]]


def usable_noise(noise: Sequence[Noise], *, english: bool) -> tuple[list[Noise], dict[str, str]]:
    """Return the kinds of noise that can be made, and the reasons why the others cannot, by their names."""
    usable, reasons = [], {}
    for each in noise:
        if needs_english(each.kind) and not english:
            reasons[each.kind] = "the texts are not in English"
        else:
            usable.append(each)
    return usable, reasons


def labelled_collection(folder: Path) -> Collection:
    """Read a collection in BEIR's layout.

    Raises:
        UserError: it is missing or malformed.
    """
    return read_collection(collection_folder(None, folder))


def _noisy_versions(texts: Sequence[str], noise: Sequence[Noise], seed: int) -> dict[str, Sequence[str]]:
    versions: dict[str, Sequence[str]] = {CLEAN: list(texts)}
    versions |= {each.kind: noisy(texts, each.kind, each.strength, seed) for each in noise}
    return versions


def _labelled(collection: Collection, noise: Sequence[Noise], seed: int, half: int | None) -> QueryGroup:
    """Return the queries of a collection that have a relevant document; own versions only if they have all of them."""
    clean = collection.clean
    asked = {
        query: text
        for query, text in zip(clean.ids, clean.texts, strict=True)
        if query in collection.relevant and (half is None or key_of(text) // 2 % 2 == half)
    }
    position = {document: place for place, document in enumerate(collection.document_ids)}
    found = [[position[each] for each in collection.relevant[query] if each in position] for query in asked]
    width = max((len(each) for each in found), default=1) or 1
    relevant = np.array([each + [-1] * (width - len(each)) for each in found], dtype=np.int64).reshape(-1, width)
    versions = _noisy_versions(list(asked.values()), noise, seed)
    for own in collection.queries:
        texts = dict(zip(own.ids, own.texts, strict=True))
        if own.name != CLEAN_FILE and all(query in texts for query in asked):
            name = version_name(own.name)
            versions[own.name if name in versions else name] = [texts[query] for query in asked]
    own_places = collection.queries_in_corpus()
    itself = np.array([own_places.get(query, -1) for query in asked], dtype=np.int64) if own_places else None
    return QueryGroup(COLLECTION, versions, relevant, list(collection.documents()), itself)
