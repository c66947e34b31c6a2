"""Synonyms of a word, and similarity of words in meaning: by word vectors, lists of neighbours, or WordNet."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.data.tables import read_columns
from holdfast.edits.word_vectors import read_words_and_vectors
from holdfast.edits.wordnet import WordNet
from holdfast.edits.words import draw_word, others

NEAR = 0.5
"""The minimum cosine of synonyms for counter-fitted vectors, as in TextFooler (Jin et al. 2020, §2.2)."""

_MEMO = 1 << 15  # words; an attack looks up the same words many times
_NEAREST = 8  # number of nearest synonyms to draw from: further ones are less certain


class Synonyms(Protocol):
    """A source of synonyms."""

    source: str
    """Description of the source, for the record."""

    complete: bool
    """True if the source has every word above the minimum cosine, False if it has only the first few of a list."""

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` other words, nearest first, in the word's case; none for an unknown word.

        ``minimum`` is the minimum cosine of a neighbour; sources without cosines ignore it.
        """


class Similarity(Protocol):
    """A filter of candidates by their meaning."""

    @property
    def source(self) -> str:
        """The description of the similarity, for the record."""

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates that may replace ``word``, in the given order."""


def draw_synonym(synonyms: Synonyms, word: str, rng: random.Random) -> str | None:
    """Draw one of the nearest synonyms of a word; None if there is none."""
    return draw_word(synonyms.nearest(word, _NEAREST), rng)


class VectorNeighbours:
    """Synonyms by the largest cosine of word vectors (TextFooler, §2.2 (2); TextBugger's Sub-W; ADCL, §3.3 (3)).

    The search is exact: one matrix-vector product per word, cached.

    Args:
        words: V words. Of words that differ only in case, the first one is used.
        vectors: (V, d).
        source: origin of the vectors.
        threshold: minimum cosine of words that :meth:`similar` accepts.
    """

    complete = True

    def __init__(self, words: Sequence[str], vectors: npt.ArrayLike, *, source: str, threshold: float = NEAR) -> None:
        rows = np.asarray(vectors, dtype=np.float32)
        self._rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        self._words = [word.lower() for word in words]
        self._index = {word: row for row, word in reversed(list(enumerate(self._words)))}
        self.source, self.threshold = source, threshold
        self._near = functools.lru_cache(maxsize=_MEMO)(self._find)

    @classmethod
    def read(cls, path: Path, *, source: str | None = None, threshold: float = NEAR) -> VectorNeighbours:
        """Read a file of word vectors (see :func:`holdfast.edits.word_vectors.read_words_and_vectors`).

        Raises:
            UserError: the file cannot be read or has another format.
        """
        words, vectors = read_words_and_vectors(path)
        return cls(words, vectors, source=source or f"word vectors {path.name}", threshold=threshold)

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` other words, nearest first, in the word's case; none for an unknown word."""
        return others(word, self._near(word.lower(), limit, minimum))

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates whose cosine is at least the threshold; none if ``word`` has no vector."""
        row = self._index.get(word.lower())
        if row is None:
            return []

        def is_similar(candidate: str) -> bool:
            other = self._index.get(candidate.lower())
            return other is not None and bool(self._rows[row] @ self._rows[other] >= self.threshold)

        return [candidate for candidate in candidates if is_similar(candidate)]

    def _find(self, word: str, limit: int, minimum: float) -> tuple[str, ...]:
        row = self._index.get(word)
        if row is None or not self._rows[row].any():
            return ()
        cosines = self._rows @ self._rows[row]
        near = np.flatnonzero(cosines >= minimum)
        nearest_first = near[np.argsort(-cosines[near], kind="stable")]
        found = dict.fromkeys(self._words[other] for other in nearest_first)
        return tuple(other for other in found if other != word)[:limit]


class ListedNeighbours:
    """Synonyms from lists of neighbours, in the order of the lists.

    Args:
        lists: the neighbours of each word, all in lower case.
        source: origin of the lists.
    """

    complete = False

    def __init__(self, lists: Mapping[str, Sequence[str]], *, source: str) -> None:
        self._lists = lists
        self.source = source

    @classmethod
    def read(cls, path: Path, *, source: str | None = None) -> ListedNeighbours:
        """Read a TSV with the columns ``word`` and ``neighbors`` (separated by spaces); ``.gz`` too.

        Raises:
            UserError: the file cannot be read or has another format.
        """
        rows = read_columns(path, ["word", "neighbors"])
        lists = {word.lower(): neighbours.lower().split() for _, (word, neighbours) in rows}
        longest = max(map(len, lists.values()), default=0)
        return cls(lists, source=source or f"neighbour lists {path.name} (at most {longest} a word, without cosines)")

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` other words, in the list's order, in the word's case; none for an unknown word."""
        return others(word, self._lists.get(word.lower(), ()))[:limit]

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates that are neighbours of ``word``."""
        near = set(self._lists.get(word.lower(), ()))
        return [candidate for candidate in candidates if candidate.lower() in near]


class JoinedSynonyms:
    """The union of several sources of synonyms; the words of the first source come first.

    Args:
        sources: one or more sources; ``limit`` applies to each of them.
    """

    def __init__(self, sources: Sequence[Synonyms]) -> None:
        self._sources = sources
        self.source = "; ".join(each.source for each in sources)
        self.complete = all(each.complete for each in sources)

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` words *of each source*, in the word's case, each once."""
        return list(dict.fromkeys(near for each in self._sources for near in each.nearest(word, limit, minimum)))


def is_wordnet(path: Path) -> bool:
    """Return True if a path of synonyms is that of WordNet: a folder or ``.zip``; lists and vectors are other files."""
    return path.is_dir() or path.suffix == ".zip"


def read_synonyms(path: Path) -> VectorNeighbours | ListedNeighbours | WordNet:
    """Read WordNet from a folder or ``.zip``, neighbour lists from ``.tsv`` or ``.tsv.gz``, otherwise word vectors."""
    if is_wordnet(path):
        return WordNet.read(path)
    return ListedNeighbours.read(path) if _holds_lists(path) else VectorNeighbours.read(path)


def read_similarity(path: Path, *, threshold: float) -> VectorNeighbours | ListedNeighbours:
    """Read neighbour lists from ``.tsv`` or ``.tsv.gz``, otherwise word vectors, which are similar from a threshold."""
    if _holds_lists(path):
        return ListedNeighbours.read(path, source=f"neighbour lists of {path.name}")
    source = f"word vectors of {path.name}, cosine ≥ {threshold:g}"
    return VectorNeighbours.read(path, source=source, threshold=threshold)


def _holds_lists(path: Path) -> bool:
    return path.name.endswith((".tsv", ".tsv.gz"))
