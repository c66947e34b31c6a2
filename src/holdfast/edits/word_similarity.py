"""Similarity of words in meaning, as a filter of candidates: by word vectors, or by lists of neighbours."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.data.tables import read_columns
from holdfast.data.untrusted_lines import numbered_lines, open_bytes
from holdfast.errors import UserError

_MAX_LINE = 1 << 16


class Similarity(Protocol):
    """A filter of candidates by their meaning."""

    @property
    def source(self) -> str:
        """The description of the similarity, for the record."""

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates that may replace ``word``, in the given order."""


class VectorSimilarity:
    """Similarity by the cosine of word vectors, with a threshold (ADCL, §3.3 (3), after TextFooler).

    Args:
        vectors: (V, d).
        index: row of each of the V words, in lower case.
        threshold: ε, minimum cosine of similar words.
        source: origin of the vectors.
    """

    def __init__(self, vectors: npt.ArrayLike, index: Mapping[str, int], *, threshold: float, source: str) -> None:
        rows = np.asarray(vectors, dtype=np.float32)
        self._rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        self._index = index
        self.threshold = threshold
        self.source = f"{source}, cosine ≥ {threshold:g}"

    @classmethod
    def read(cls, path: Path, *, threshold: float) -> VectorSimilarity:
        """Read ``word number number …`` lines (GloVe, counter-fitted vectors; ``.gz`` too), or an ``.npz`` file.

        A first line of two numbers, as word2vec writes, is skipped. An ``.npz`` file holds ``words`` (V,) and
        ``vectors`` (V, d).

        Raises:
            UserError: the file cannot be read or has another format.
        """
        words, vectors = read_vectors(path)
        index = {word.lower(): row for row, word in reversed(list(enumerate(words)))}  # the first of equal words
        return cls(vectors, index, threshold=threshold, source=f"word vectors of {path.name}")

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates whose cosine is at least the threshold; none if ``word`` has no vector."""
        row = self._index.get(word.lower())
        known = [(candidate, self._index.get(candidate.lower())) for candidate in candidates]
        return [
            candidate
            for candidate, other in known
            if row is not None and other is not None and self._rows[row] @ self._rows[other] >= self.threshold
        ]


class Neighbours:
    """Similarity by lists of neighbours, nearest first: the words in the list pass.

    Args:
        lists: the neighbours of each word, all in lower case.
        source: origin of the lists.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]], *, source: str) -> None:
        self._lists = lists
        self.source = source

    @classmethod
    def read(cls, path: Path) -> Neighbours:
        """Read a TSV with the columns ``word`` and ``neighbors`` (separated by spaces); ``.gz`` too.

        Raises:
            UserError: the file cannot be read or has another format.
        """
        return cls(read_lists(path), source=f"neighbour lists of {path.name}")

    def similar(self, word: str, candidates: Sequence[str]) -> list[str]:
        """Return the candidates that are neighbours of ``word``."""
        near = set(self._lists.get(word.lower(), ()))
        return [candidate for candidate in candidates if candidate.lower() in near]


def read_similarity(path: Path, *, threshold: float) -> VectorSimilarity | Neighbours:
    """Read neighbour lists if the name ends in ``.tsv`` or ``.tsv.gz``, otherwise word vectors."""
    if path.name.endswith((".tsv", ".tsv.gz")):
        return Neighbours.read(path)
    return VectorSimilarity.read(path, threshold=threshold)


def read_lists(path: Path) -> dict[str, list[str]]:
    """Read the neighbours of each word, in lower case, from a file as for :meth:`Neighbours.read`."""
    rows = read_columns(path, ["word", "neighbors"])
    return {word.lower(): neighbours.lower().split() for _, (word, neighbours) in rows}


def read_vectors(path: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Read words and their vectors (V, d) from a file as for :meth:`VectorSimilarity.read`."""
    return _read_npz(path) if path.suffix == ".npz" else _read_text(path)


def _read_text(path: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    words: list[str] = []
    rows: list[npt.NDArray[np.float32]] = []
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path), _MAX_LINE):
            word, *numbers = line.rstrip().split(" ")
            if number == 1 and len(numbers) == 1:
                continue
            try:
                row = np.array(numbers, dtype=np.float32)
            except ValueError as error:
                raise UserError(f"{path}:{number}: not a word and its numbers: {error}") from error
            if not numbers or (rows and len(row) != len(rows[0])):
                raise UserError(f"{path}:{number}: {len(row)} numbers, {len(rows[0]) if rows else 'some'} are expected")
            words.append(word)
            rows.append(row)
    if not rows:
        raise UserError(f"{path}: the file holds no word vectors")
    return words, np.stack(rows)


def _read_npz(path: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        raise UserError(f"cannot read {path}: it is to hold the arrays 'words' and 'vectors' ({error})") from error
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise UserError(f"{path}: {len(words)} words do not fit vectors of shape {vectors.shape}")
    return [str(word) for word in words], np.asarray(vectors, dtype=np.float32)
