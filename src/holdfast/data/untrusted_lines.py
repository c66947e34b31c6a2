r"""Reading of lines of untrusted text: with bounded memory, strict UTF-8, and errors with their exact position.

Rows end only in ``\n``. ``str.splitlines`` and CSV readers with quoting are never used: real sentences contain
unbalanced quotes, U+0085 and U+2028, which would break rows.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from holdfast.errors import UserError

# A row of a labelled set may contain whole film reviews; a longer line is not a row.
MAX_ROW_CHARS = 1 << 20

# The continuation bytes of UTF-8: without them, one byte per character is left.
_CONTINUATION = bytes(range(0x80, 0xC0))
# The length of an endless line is counted up to this.
_COUNT_AT_MOST = 1 << 26
_CHUNK = 1 << 16
# A Zstandard frame can expand more than a thousandfold, so it is decompressed in small pieces.
_ZSTD_CHUNK = 1 << 13
_MAGIC = {
    b"\x1f\x8b": "gzip data: give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "Zstandard data: give it a name that ends in .zst",
    b"PAR1": "a Parquet file: give it a name that ends in .parquet",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh": "bzip2 data: unpack it first",
    b"\xfd7zXZ": "xz data: unpack it first",
    b"\xff\xfe": "UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8",
}


PACKED = (".gz", ".zst")


def suffix_of(path: Path) -> str:
    """Return the suffix of a file's name in lower case, without ``.gz`` or ``.zst``."""
    suffix = Path(path.stem).suffix if path.suffix.lower() in PACKED else path.suffix
    return suffix.lower()


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for reading bytes; ``.gz`` and ``.zst`` are decompressed while reading.

    Raises:
        UserError: the file cannot be opened.
    """
    try:
        raw: IO[bytes] = path.open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    with raw:
        if path.suffix.lower() == ".gz":
            # A larger buffer than gzip's own makes readline a C loop over decompressed bytes.
            yield io.BufferedReader(gzip.GzipFile(fileobj=raw, mode="rb"), _CHUNK)
        elif path.suffix.lower() == ".zst":
            yield io.BufferedReader(_ZstdReader(raw), _CHUNK)
        else:
            yield raw


def standard_input() -> IO[bytes]:
    """Return standard input as bytes, independent of the terminal's encoding; refuse a closed one."""
    if sys.stdin is None or sys.stdin.closed:
        raise UserError("standard input is closed: give a file in place of -, or send it the text (< FILE)")
    return sys.stdin.buffer


def numbered_lines(stream: IO[bytes], name: str, max_chars: int) -> Iterator[tuple[int, str]]:
    r"""Yield ``(line number from 1, text)`` for each line, without its end (``\n`` or ``\r\n``) and an initial BOM.

    At most about ``4 * max_chars`` bytes are in memory, so an endless line is refused.

    Raises:
        UserError: a NUL byte, invalid UTF-8, a line that is too long or damaged compression (with ``name:line``).
    """
    bound = 4 * max_chars + len("\r\n") + len(b"\xef\xbb\xbf")
    number = 0
    while raw := _readline(stream, bound, name, number + 1):
        number += 1
        if number == 1:
            _refuse_known_binary(raw, name)
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw:
            raise UserError(
                f"{name}:{number}: byte {raw.index(0)} of the line is NUL, so this is not a text file: "
                "give UTF-8 text with a sentence per line"
            )
        if not raw.endswith(b"\n") and len(raw) >= bound - 3:
            raise over_long(f"{name}:{number}", _count_characters(stream, raw, name, number), max_chars)
        text = _decode(raw, name, number).removesuffix("\n").removesuffix("\r")
        if len(text) > max_chars and len(text.strip()) > max_chars:
            raise over_long(f"{name}:{number}", len(text.strip()), max_chars)
        yield number, text


def over_long(where: str, length: int, max_chars: int) -> UserError:
    """Return the error for a text of ``length`` characters, more than ``max_chars``."""
    counted = f"more than {_COUNT_AT_MOST:,}" if length > _COUNT_AT_MOST else f"{length:,}"
    return UserError(
        f"{where}: the line is {counted} characters long, over the limit of {max_chars:,}: "
        "put one sentence on a line" + ", or raise --max-chars" * (max_chars < MAX_ROW_CHARS)
    )


def _readline(stream: IO[bytes], bound: int, name: str, number: int) -> bytes:
    try:
        return stream.readline(bound)
    except (EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        reason = "the compressed data ends too early" if isinstance(error, EOFError) else f"{error}"
        raise UserError(f"{name}:{number}: cannot be read ({reason}): the file is damaged, get it again") from error


def _count_characters(stream: IO[bytes], raw: bytes, name: str, number: int) -> int:
    count = len(raw.translate(None, _CONTINUATION))
    while not raw.endswith(b"\n") and count <= _COUNT_AT_MOST:
        raw = _readline(stream, _CHUNK, name, number)
        if not raw:
            break
        count += len(raw.rstrip(b"\r\n").translate(None, _CONTINUATION))
    return count


def _decode(raw: bytes, name: str, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}:{number}: byte {error.start} of the line (0x{raw[error.start]:02x}) is not valid UTF-8: "
            "convert the file (iconv -f LATIN1 -t UTF-8, or from its real encoding) or remove the line"
        ) from error


def _refuse_known_binary(raw: bytes, name: str) -> None:
    for magic, description in _MAGIC.items():
        if raw.startswith(magic):
            raise UserError(f"{name}:1: this is {description}")


class _ZstdReader(io.RawIOBase):
    """Reader of Zstandard frames. Unlike the library's own stream reader, it detects a truncated file."""

    def __init__(self, source: IO[bytes]) -> None:
        import zstandard

        self._source = source
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._frame: Any = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._packed:
                self._packed = self._source.read(_ZSTD_CHUNK)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._ready = memoryview(self._unpack())
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _unpack(self) -> bytes:
        if self._frame is None:
            self._frame = self._new()
        try:
            text: bytes = self._frame.decompress(self._packed)
        except self._error as error:
            raise OSError(str(error)) from error
        self._packed = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return text


def checked_text(value: object, column: str, where: str) -> str:
    """Return the value of a text column.

    Raises:
        UserError: it is missing, not text, or not valid Unicode.
    """
    if not isinstance(value, str):
        problem = "is missing" if value is None else f"holds {type(value).__name__}, not text"
        raise UserError(f"{where}: the column {column!r} {problem}: give every row a string")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(
                f"{where}: the column {column!r} holds half a surrogate pair: correct or remove it"
            ) from error
    return value


def json_object(line: str, where: str, example: str) -> dict[str, Any]:
    """Parse a line of JSON Lines; the error at ``where`` (``file:line``) shows the ``example`` of a valid line.

    Raises:
        UserError: the line is not one JSON object.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"{where}: not valid JSON ({reason}): JSON Lines has one object on each line") from error
    if not isinstance(record, dict):
        raise UserError(f"{where}: a JSON {type(record).__name__}, not an object: write {example}")
    return record
