"""Readers of word vectors: the text format of GloVe, word2vec and fastText, and ``.npz`` files.

A line of text is a word and its numbers, separated by single spaces (or tabs); a first line of two integers, as in
word2vec files, is the number of words and of numbers per word. Files list frequent words first, and the maximum number
of words depends on this.
"""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.data.untrusted_lines import numbered_lines, open_bytes
from holdfast.errors import UserError

# Enough for a word and thousands of numbers; a longer line is not a line of word vectors.
_MAX_LINE_CHARS = 1 << 18
# Number of rows copied into one array at a time, and of lines between two calls of the progress.
_BLOCK = 1 << 14
_HEADER = re.compile(r"\d{1,18} \d{1,18}")


@dataclass(frozen=True)
class WordVectors:
    """Word vectors, the most frequent words first.

    Attributes:
        words: n different words.
        matrix: (n, d) float32.
        duplicates: number of lines left out because their word occurred before.
        spaced: number of lines left out because their word contains a space or is empty, so that no text can match it.
    """

    words: list[str]
    matrix: npt.NDArray[np.float32]
    duplicates: int
    spaced: int


def read_word_vectors(
    path: Path, *, words: int | None = None, progress: Callable[[int], None] | None = None
) -> WordVectors:
    """Read word vectors as a stream.

    Args:
        path: the file; ``.gz`` and ``.zst`` are decompressed while reading.
        words: maximum number of words; None: read all.
        progress: called regularly with the number of words read.

    Raises:
        UserError: a line has a different number of numbers than the first, or a value that is not a number, NaN or
            infinite (the message has ``file:line``); the file has no words, or not the number of lines in its header.
    """
    if path.suffix.lower() == ".bin":
        raise UserError(f"{path}: word2vec's binary format is not supported: save the vectors as text first")
    reader = _Reader(path)
    announced: int | None = None
    lines = 0
    with open_bytes(path) as file:
        for number, line in numbered_lines(file, str(path), _MAX_LINE_CHARS):
            line = line.rstrip(" \t").replace("\t", " ")
            if number == 1 and _HEADER.fullmatch(line):
                announced, reader.width = map(int, line.split(" "))
                continue
            reader.add(line, number)
            lines += 1
            if progress is not None and lines % _BLOCK == 0:
                progress(len(reader.words))
            if words is not None and len(reader.words) == words:
                announced = None  # the rest of the file is not read
                break
    if announced is not None and lines != announced:
        raise UserError(
            f"{path}:1: the header announces {announced:,} words and the file has {lines:,}: download it again"
        )
    if not reader.words:
        raise UserError(f"{path} holds no word vectors: a line is a word and its numbers, separated by spaces")
    return WordVectors(list(reader.words), reader.matrix(), reader.duplicates, reader.spaced)


class _Reader:
    """The words and numbers of the lines read so far. ``words`` is a dictionary for its order and its fast look-up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.width = 0
        self.words: dict[str, None] = {}
        self.duplicates = self.spaced = 0
        self._blocks: list[npt.NDArray[np.float32]] = []
        self._rows: list[npt.NDArray[np.float32]] = []

    def add(self, line: str, number: int) -> None:
        location = f"{self.path}:{number}"
        fields = line.split(" ")
        if not self.width:
            self.width = len(fields) - 1
        count = len(fields) - 1
        if not self.width or count < self.width or (count > self.width and all(map(_is_number, fields[1:]))):
            raise UserError(
                f"{location}: {count} numbers where {self.width or 'some'} are expected: a line is a word and its "
                f"numbers, separated by single spaces"
            )
        word = " ".join(fields[: -self.width])
        values = self._values(fields[-self.width :], location)
        if not word or " " in word:
            self.spaced += 1
        elif word in self.words:
            self.duplicates += 1
        else:
            self.words[word] = None
            self._rows.append(values)
            if len(self._rows) == _BLOCK:
                self._pack()

    def matrix(self) -> npt.NDArray[np.float32]:
        self._pack()
        return np.concatenate(self._blocks)

    def _values(self, fields: list[str], location: str) -> npt.NDArray[np.float32]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # an overflow is an infinity, reported below
                values = np.array(fields, dtype=np.float64).astype(np.float32)
        except ValueError:
            wrong = next(field for field in fields if not _is_number(field))
            raise UserError(
                f"{location}: {wrong[:40]!r} is not a number: {self.width} numbers are expected after the word"
            ) from None
        if not np.isfinite(values).all():
            raise UserError(f"{location}: the vector has a NaN or an infinity: correct or remove the line")
        return values

    def _pack(self) -> None:
        if self._rows:
            self._blocks.append(np.stack(self._rows))
            self._rows.clear()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_words_and_vectors(path: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Read words and their vectors, (V, d), from a text file or from an ``.npz`` file.

    An ``.npz`` file holds ``words`` (V,) and ``vectors`` (V, d).

    Raises:
        UserError: the file cannot be read or has another format.
    """
    if path.suffix != ".npz":
        vectors = read_word_vectors(path)
        return vectors.words, vectors.matrix
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, matrix = arrays["words"], arrays["vectors"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        raise UserError(f"cannot read {path}: the arrays 'words' and 'vectors' are expected in it ({error})") from error
    if matrix.ndim != 2 or len(words) != len(matrix):
        raise UserError(f"{path}: {len(words)} words do not fit vectors of shape {matrix.shape}")
    return [str(word) for word in words], np.asarray(matrix, dtype=np.float32)
