"""The exception and the warning that users see."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Sequence

from holdfast.terminal import visible

_LONGEST, _END = 2000, 300
"""Maximum characters of a message, and characters of its end that are kept if it is longer."""


class UserError(Exception):
    """An error of the user, reported in one line: what is wrong, where (file:line), and what to do about it.

    The command line prints the message and exits with code 2; it never shows a traceback for it. Library users can
    catch it like any exception.
    """

    def __init__(self, message: str) -> None:
        line = visible(" ".join(message.split()))  # it can contain text from a model or a file
        if len(line) > _LONGEST:  # text from a file can be long; the advice is at the end
            line = f"{line[: _LONGEST - _END]} … {line[-_END:]}"
        super().__init__(line)


class EndsRun(UserError):
    """An error that ends the whole command, also where otherwise single parts may fail and the others continue.

    Examples: a full disk, and a file of another run in a run's folder.
    """


class NotInstalled(UserError):
    """An optional library is not installed; the message says how to install it."""


class Notice(UserWarning):
    """A warning in one line on a result: something was read in another way than the user may expect.

    The command line prints it once, to standard error; library users get it as a warning.
    """

    def __init__(self, message: str) -> None:
        super().__init__(str(UserError(message)))


def emit_notice(message: str) -> None:
    """Emit a `Notice`."""
    warnings.warn(Notice(message), stacklevel=3)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the known name nearest to ``name``, or ``""`` if none is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def one_of(where: str, value: object, known: Sequence[str]) -> str:
    """Return ``value`` as text, after a check that it is one of the names in ``known``.

    Raises:
        UserError: it is not; the message contains ``where`` (an option, a file and line) and the nearest name.
    """
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise UserError(f"{where} does not take {value!r}{hint}: it is one of {', '.join(known)}")
    return str(value)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, with the next one if it ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return (text or type(error).__name__)[:300]
