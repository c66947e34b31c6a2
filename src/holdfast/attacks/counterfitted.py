"""The counter-fitted word vectors (Mrkšić et al. 2016), downloaded once and cached."""

from __future__ import annotations

import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from holdfast.edits.synonyms import VectorNeighbours
from holdfast.edits.word_vectors import read_words_and_vectors
from holdfast.errors import UserError
from holdfast.files import NO_SPACE, atomic_path, cannot_write, one_line_write_errors, sha256, system_error

COUNTERFITTED_URL = "https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/counter-fitted-vectors.txt.zip"
COUNTERFITTED_SHA256 = "6f67f40c9b2e757695b3af2209bcd4393377962ca440dd4fad542937d01e7d56"
"""SHA-256 of the archive. Its authors publish none; this one was recorded by another public project
(github.com/Mavarun/freshness-gated-ops-copilot, October 2026)."""
COUNTERFITTED_SHAPE = (65_713, 300)
COUNTERFITTED_FILE = "counter-fitted-vectors.npz"
_MEMBER = "counter-fitted-vectors.txt"
_MAX_DOWNLOAD = 1 << 29
_CHUNK = 1 << 20
_TIMEOUT = 30  # seconds without a response


def counterfitted(cache: Path) -> VectorNeighbours:
    """Load the counter-fitted vectors (Mrkšić et al. 2016) from ``cache``; download them into it if they are missing.

    Raises:
        UserError: the download fails, the archive has another hash, or the cache cannot be written.
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
        raise UserError(f"cannot write to {folder} ({error.strerror}): set HOLDFAST_CACHE to another folder") from error
    return folder


def _download(target: Path) -> None:
    instead = "give the file with --synonyms FILE, or take the shorter lists with --synonyms neighbours"
    try:
        with urllib.request.urlopen(COUNTERFITTED_URL, timeout=_TIMEOUT) as stream, target.open("wb") as file:
            _copy(stream, file)
    except (OSError, ValueError) as error:  # URLError and timeouts are OSErrors
        if system_error(error) in NO_SPACE:
            raise cannot_write(target, error) from error
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
    """Save the archive's vectors as arrays, which load ten times faster than text."""
    with zipfile.ZipFile(archive) as opened, one_line_write_errors(archive.parent / _MEMBER):
        text = Path(opened.extract(_MEMBER, archive.parent))
    words, vectors = read_words_and_vectors(text)
    if vectors.shape != COUNTERFITTED_SHAPE:
        raise UserError(f"{COUNTERFITTED_URL} holds vectors of shape {vectors.shape}, not {COUNTERFITTED_SHAPE}")
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        np.savez(file, words=np.array(words), vectors=vectors)
