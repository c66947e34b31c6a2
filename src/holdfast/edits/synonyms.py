"""Synonyms of a word: by word vectors, from lists of neighbours, or from WordNet."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.edits.word_similarity import Neighbours, read_lists, read_vectors
from holdfast.edits.wordnet import WordNet
from holdfast.edits.words import others

NEAR = 0.5
"""The minimum cosine of synonyms for counter-fitted vectors, as in TextFooler (Jin et al. 2020, §2.2)."""

_MEMO = 1 << 15  # words; an attack asks for the same words many times


class Synonyms(Protocol):
    """A source of synonyms."""

    source: str
    """Description of the source, for the record."""

    complete: bool
    """True if the source has every word above the minimum cosine, False if it has only the first few of a list."""

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` other words, nearest first, in the word's case; none for an unknown word.

        Args:
            word: the word, as in a text.
            limit: maximum number of words.
            minimum: minimum cosine of a neighbour; ignored by sources without cosines.
        """


class VectorNeighbours:
    """Synonyms by the largest cosine of word vectors (TextFooler, §2.2 (2); TextBugger's Sub-W).

    The search is exact: one matrix-vector product per word, cached.

    Args:
        words: V words. Of words that differ only in case, the first one is used.
        vectors: (V, d).
        source: origin of the vectors.
    """

    complete = True

    def __init__(self, words: Sequence[str], vectors: npt.ArrayLike, *, source: str) -> None:
        rows = np.asarray(vectors, dtype=np.float32)
        self._rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        self._words = [word.lower() for word in words]
        self._index = {word: row for row, word in reversed(list(enumerate(self._words)))}
        self.source = source
        self._near = functools.lru_cache(maxsize=_MEMO)(self._find)

    @classmethod
    def read(cls, path: Path, *, source: str | None = None) -> VectorNeighbours:
        """Read ``word number number …`` lines or an ``.npz`` file, as `VectorSimilarity` does.

        Args:
            path: the file.
            source: origin of the vectors; by default the file's name.

        Raises:
            UserError: the file cannot be read or has another format.
        """
        words, vectors = read_vectors(path)
        return cls(words, vectors, source=source or f"word vectors {path.name}")

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` other words, nearest first, in the word's case; none for an unknown word."""
        return others(word, self._near(word.lower(), limit, minimum))

    def _find(self, word: str, limit: int, minimum: float) -> tuple[str, ...]:
        row = self._index.get(word)
        if row is None or not self._rows[row].any():
            return ()
        cosines = self._rows @ self._rows[row]
        near = np.flatnonzero(cosines >= minimum)
        nearest_first = near[np.argsort(-cosines[near], kind="stable")]
        found = dict.fromkeys(self._words[other] for other in nearest_first)
        return tuple(other for other in found if other != word)[:limit]


class ListedNeighbours(Neighbours):
    """Synonyms from lists of neighbours, in the order of the lists.

    Args:
        lists: the neighbours of each word, all in lower case.
        source: origin of the lists.
    """

    complete = False

    @classmethod
    def read(cls, path: Path) -> ListedNeighbours:
        """Read a TSV with the columns ``word`` and ``neighbors`` (separated by spaces); ``.gz`` too.

        Raises:
            UserError: the file cannot be read or has another format.
        """
        lists = read_lists(path)
        longest = max(map(len, lists.values()), default=0)
        return cls(lists, source=f"neighbour lists {path.name} (at most {longest} a word, without cosines)")

    def nearest(self, word: str, limit: int, minimum: float = NEAR) -> list[str]:
        """Return at most ``limit`` other words, in the list's order, in the word's case; none for an unknown word."""
        return others(word, self._lists.get(word.lower(), ()))[:limit]


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
    if path.name.endswith((".tsv", ".tsv.gz")):
        return ListedNeighbours.read(path)
    return VectorNeighbours.read(path)
