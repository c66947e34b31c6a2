"""The answers of an endpoint on disk: a file for each endpoint and model, to which vectors are only appended.

A line holds the SHA-256 of a text, a checksum, and its vector (float32, base64). It is written under a lock, so that
several processes may share the file. A line that a killed process left incomplete is ended by the next writer, and left
out by its checksum.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.files import cannot_write

Vector = npt.NDArray[np.float32]


class EndpointCache:
    """The answers of one model of one endpoint.

    Args:
        folder: the folder of all such files, which is created.
        url: what tells the endpoint apart, and may be shown: `holdfast.endpoint_options.endpoint_address`.
        model: the name of the model there.

    Attributes:
        path: the file.
    """

    def __init__(self, folder: Path, url: str, model: str) -> None:
        name = hashlib.sha256(f"{url}\n{model}".encode()).hexdigest()[:32]
        self.path = folder / f"{name}.vectors"
        self._about = f"# {url} {model}"
        self._places: dict[bytes, tuple[int, int]] = {}  # the beginning and the length of a line, by the key
        self._read_to = 0

    def __len__(self) -> int:
        return len(self._places)

    def known(self, texts: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors of the texts that were answered, also by other processes in the meantime."""
        for _ in range(2):
            self._read_new()
            vectors = self._read(texts)
            if vectors is not None:
                return vectors
            self._places, self._read_to = {}, 0  # somebody has replaced the file
        return {}

    def _read(self, texts: Sequence[str]) -> dict[str, Vector] | None:
        """Return the vectors of the texts that have a place; None if another line stands there."""
        found = {text: place for text in texts if (place := self._places.get(_key(text))) is not None}
        vectors: dict[str, Vector] = {}
        if not found:
            return vectors
        try:
            with self.path.open("rb") as file:
                for text, (start, length) in found.items():
                    file.seek(start)
                    line = file.read(length)
                    if _key_of(line) != _key(text):
                        return None
                    vectors[text] = _vector_of(line)
        except FileNotFoundError:
            return None
        return vectors

    def add(self, texts: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        """Append the vectors of texts, (n, d).

        Raises:
            UserError: the file cannot be written.
        """
        lines = [_line(text, vector) for text, vector in zip(texts, vectors, strict=True)]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append(b"".join(lines))
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _append(self, data: bytes) -> None:
        import fcntl

        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            before = os.fstat(handle).st_size
            if before == 0:
                data = f"{self._about}\n".encode() + data
            elif os.pread(handle, 1, before - 1) != b"\n":  # the last writer was killed
                data = b"\n" + data
            try:
                while data:  # a write may be partial; the next attempt then raises the error
                    data = data[os.write(handle, data) :]
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)  # also releases the lock

    def _read_new(self) -> None:
        """Find the complete and intact lines that were added since the last look."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if os.fstat(file.fileno()).st_size < self._read_to:  # it is another file
                self._places, self._read_to = {}, 0
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    break
                key = _key_of(line)
                if key is not None:
                    self._places[key] = self._read_to, len(line)
                self._read_to += len(line)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest().encode()


def _line(text: str, vector: Vector) -> bytes:
    content = base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes())
    key = _key(text)
    return b"%s %08x %s\n" % (key, zlib.crc32(key + content), content)


def _key_of(line: bytes) -> bytes | None:
    """Return the key of a line; None if it is damaged or no vector."""
    parts = line.split()
    if len(parts) != 3 or len(parts[0]) != 64:
        return None
    key, checksum, content = parts
    return key if checksum == b"%08x" % zlib.crc32(key + content) else None


def _vector_of(line: bytes) -> Vector:
    return vector_of_base64(line.split()[2])


def vector_of_base64(content: bytes | str) -> Vector:
    """Return the numbers of little-endian float32 in base64, (d,).

    Raises:
        ValueError: it is no base64 of whole numbers of four bytes.
    """
    try:
        return np.frombuffer(base64.b64decode(content, validate=True), dtype="<f4").astype(np.float32)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
