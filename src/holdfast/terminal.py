"""Safe terminal output: escaped control characters, and standard streams that are closed, broken or not UTF-8.

Texts from models, corpora, results and file names are not trusted. They are printed through `visible`, so that they
cannot move the cursor, set the clipboard or change the order of letters.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TextIO

# Characters that a terminal interprets: controls except tab and line feed, also 8-bit ones (C1); line and paragraph
# separators; embeddings, overrides and isolates of bidirectional text. And surrogates, which are not valid text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return ``text`` with every character that a terminal would interpret escaped, such as ``\x1b``."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def json_escaped(text: str, encoding: str = "utf-8") -> str:
    """Return equal JSON in which such characters, and those missing in ``encoding``, are JSON escapes."""
    if not encoding.lower().startswith("utf"):
        text = re.sub(r"[^\x00-\x7f]", _json_escape, text)
    # Line feeds and spaces are JSON's layout; other controls are already escaped in JSON.
    return _CONTROLS.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


class _Raw(io.TextIOBase):
    """A standard stream without changes; with ``lossy`` (standard error), write errors are ignored."""

    def __init__(self, stream: TextIO | None, *, lossy: bool) -> None:
        self._stream = stream
        self._lossy = lossy

    def write(self, text: str) -> int:
        with self._ignoring_errors():
            if self._stream is None:
                raise BrokenPipeError(errno.EPIPE, "the stream is closed")
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._ignoring_errors():
            if self._stream is not None:
                self._stream.flush()

    @contextlib.contextmanager
    def _ignoring_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            if not self._lossy:
                raise

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"


class _Visible(_Raw):
    """A standard stream that escapes controls; ``rich_proxied_file`` is unescaped, for rich's own controls."""

    def __init__(self, stream: TextIO | None, *, lossy: bool) -> None:
        super().__init__(stream, lossy=lossy)
        self.rich_proxied_file = _Raw(stream, lossy=lossy)

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(visible(text))
        return len(text)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Replace standard output and error by streams that escape controls and accept any text in any encoding.

    A closed output raises `BrokenPipeError` when something is printed, like one whose reader is gone. Errors of
    standard error are ignored: only progress is lost.
    """
    _occupy_closed()
    before = sys.stdout, sys.stderr
    handlers = [(stream, stream.errors) for stream in before if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in handlers:
        stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = _Visible(before[0], lossy=False), _Visible(before[1], lossy=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream, errors in handlers:
            _discard_unwritten(stream)
            stream.reconfigure(errors=errors)


def _occupy_closed() -> None:
    """Open /dev/null for closed standard streams: else the next opened file would get their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _discard_unwritten(stream: io.TextIOWrapper) -> None:
    """Discard data that a stream cannot write, which would raise again when Python exits."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
