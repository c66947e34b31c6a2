"""Words near another in meaning: by word vectors, or from lists of neighbours."""

from __future__ import annotations

import functools
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.adversary.similarity import Neighbours, read_lists, read_vectors
from holdfast.adversary.words import others
from holdfast.errors import UserError
from holdfast.files import atomic_path, sha256

_MEMO = 1 << 15  # words; an attack asks for the same ones again and again

COUNTERFITTED_URL = "https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/counter-fitted-vectors.txt.zip"
COUNTERFITTED_SHA256 = "6f67f40c9b2e757695b3af2209bcd4393377962ca440dd4fad542937d01e7d56"
"""Of the archive. Its authors publish none; this is what another public project recorded of its download
(github.com/Mavarun/freshness-gated-ops-copilot, October 2026)."""
COUNTERFITTED_SHAPE = (65_713, 300)
COUNTERFITTED_FILE = "counter-fitted-vectors.npz"
_MEMBER = "counter-fitted-vectors.txt"
_MAX_DOWNLOAD = 1 << 29
_CHUNK = 1 << 20
_TIMEOUT = 30  # seconds without an answer


class Synonyms(Protocol):
    """Something that knows the neighbours of a word in meaning."""

    source: str
    """What the neighbours rest on, for the record."""

    def nearest(self, word: str, limit: int) -> list[str]:
        """At most ``limit`` other words, nearest first, in the word's case; none for an unknown word."""


class VectorNeighbours:
    """The words whose vectors have the largest cosine with the word's own: TextFooler §2.2 (2), TextBugger's Sub-W.

    Exact: one matrix-vector product a word, remembered.

    Args:
        words: V words. Of those that differ in case alone the first is used.
        vectors: (V, d).
        minimum: the smallest cosine of a neighbour.
        source: where the vectors are from.
    """

    def __init__(self, words: Sequence[str], vectors: npt.ArrayLike, *, minimum: float = 0.5, source: str) -> None:
        rows = np.asarray(vectors, dtype=np.float32)
        self._rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        self._words = [word.lower() for word in words]
        self._index = {word: row for row, word in reversed(list(enumerate(self._words)))}
        self.minimum = minimum
        self.source = f"{source}, cosine ≥ {minimum:g}"
        self._near = functools.lru_cache(maxsize=_MEMO)(self._find)

    @classmethod
    def read(cls, path: Path, *, minimum: float = 0.5, source: str | None = None) -> VectorNeighbours:
        """Read ``word number number …`` lines or an ``.npz`` file, as `holdfast.adversary.similarity.WordVectors`.

        Args:
            path: the file.
            minimum: the smallest cosine of a neighbour.
            source: where the vectors are from; by default the file's name.

        Raises:
            UserError: the file cannot be read or is not of this form.
        """
        words, vectors = read_vectors(path)
        return cls(words, vectors, minimum=minimum, source=source or f"word vectors {path.name}")

    def nearest(self, word: str, limit: int) -> list[str]:
        """At most ``limit`` other words, nearest first, in the word's case; none for an unknown word."""
        return others(word, self._near(word.lower(), limit))

    def _find(self, word: str, limit: int) -> tuple[str, ...]:
        row = self._index.get(word)
        if row is None:
            return ()
        cosines = self._rows @ self._rows[row]
        near = np.flatnonzero(cosines >= self.minimum)
        nearest_first = near[np.argsort(-cosines[near], kind="stable")]
        found = dict.fromkeys(self._words[other] for other in nearest_first)
        return tuple(other for other in found if other != word)[:limit]


class ListedNeighbours(Neighbours):
    """The neighbours that a list names, in its order.

    Args:
        lists: the neighbours of each word, all in lower case.
        source: where the lists are from.
    """

    @classmethod
    def read(cls, path: Path) -> ListedNeighbours:
        """Read a TSV with the columns ``word`` and ``neighbors``, neighbours apart by blanks; ``.gz`` too.

        Raises:
            UserError: the file cannot be read or is not of this form.
        """
        lists = read_lists(path)
        longest = max(map(len, lists.values()), default=0)
        return cls(lists, source=f"neighbour lists {path.name} (at most {longest} a word, without cosines)")

    def nearest(self, word: str, limit: int) -> list[str]:
        """At most ``limit`` other words, in the list's order, in the word's case; none for an unknown word."""
        return others(word, self._lists.get(word.lower(), ()))[:limit]


def read_synonyms(path: Path) -> VectorNeighbours | ListedNeighbours:
    """Neighbour lists where the name ends in ``.tsv`` or ``.tsv.gz``, otherwise word vectors."""
    if path.name.endswith((".tsv", ".tsv.gz")):
        return ListedNeighbours.read(path)
    return VectorNeighbours.read(path)


# --- counter-fitted vectors ----------------------------------------------------------------------------------------


def counterfitted(cache: Path) -> VectorNeighbours:
    """The counter-fitted vectors (Mrkšić et al. 2016), from ``cache`` or downloaded into it.

    Raises:
        UserError: they cannot be downloaded, what came is not the known archive, or it cannot be kept.
    """
    path = cache / COUNTERFITTED_FILE
    if not path.is_file():
        with tempfile.TemporaryDirectory(dir=_made(cache)) as folder:
            archive = Path(folder) / "vectors.zip"
            _download(archive)
            _convert(archive, path)
    return VectorNeighbours.read(path, source=f"counter-fitted vectors {_MEMBER} (archive {COUNTERFITTED_SHA256[:12]})")


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot keep anything in {folder} ({error.strerror}): set HOLDFAST_CACHE to a folder"
        ) from error
    return folder


def _download(target: Path) -> None:
    instead = "give the file with --synonyms FILE, or take the shorter lists with --synonyms neighbours"
    try:
        with urllib.request.urlopen(COUNTERFITTED_URL, timeout=_TIMEOUT) as stream, target.open("wb") as file:
            _copy(stream, file)
    except (OSError, ValueError) as error:  # URLError and timeouts are OSErrors
        reason = getattr(error, "reason", error)
        raise UserError(f"cannot download {COUNTERFITTED_URL} ({reason}): {instead}") from error
    found = sha256(target)
    if found != COUNTERFITTED_SHA256:
        raise UserError(
            f"refused: {COUNTERFITTED_URL} is not the known file (sha256 {found}, expected "
            f"{COUNTERFITTED_SHA256[:12]}...): {instead}"
        )


def _copy(stream: IO[bytes], file: IO[bytes]) -> None:
    room = _MAX_DOWNLOAD
    while block := stream.read(_CHUNK):
        room -= len(block)
        if room < 0:
            raise ValueError(f"more than {_MAX_DOWNLOAD >> 20} MiB")
        file.write(block)


def _convert(archive: Path, target: Path) -> None:
    """Keep the archive's vectors as arrays, which are read ten times as fast as text."""
    with zipfile.ZipFile(archive) as opened:
        text = Path(opened.extract(_MEMBER, archive.parent))
    words, vectors = read_vectors(text)
    if vectors.shape != COUNTERFITTED_SHAPE:
        raise UserError(f"{COUNTERFITTED_URL} holds vectors of shape {vectors.shape}, not {COUNTERFITTED_SHAPE}")
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        np.savez(file, words=np.array(words), vectors=vectors)
