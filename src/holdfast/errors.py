"""The one exception that a user ever sees, and the one warning."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Sequence

from holdfast.terminal import visible

_LONGEST, _END = 2000, 300
"""Characters of a line, and those of its end that stay when it is longer."""


class UserError(Exception):
    """A user's mistake, told in one line: what is wrong, where (file:line), and what to do about it.

    The command line prints the message and exits with code 2; it never shows a traceback for it. Library users can
    catch it like any exception.
    """

    def __init__(self, message: str) -> None:
        line = visible(" ".join(message.split()))  # whoever prints it: it can hold what a model or a file says
        if len(line) > _LONGEST:  # what a file holds can be in it: what to do about it stands at the end
            line = f"{line[: _LONGEST - _END]} … {line[-_END:]}"
        super().__init__(line)


class EndsRun(UserError):
    """A mistake that ends the whole command, also where a part of its work may fail and the rest goes on.

    Such are a disk that is full, and a file in a run's folder that is another run's.
    """


class Notice(UserWarning):
    """What a user has to know of a result, told in one line: what was read in another way than might be thought.

    The command line prints it once, to standard error; library users get it as a warning.
    """

    def __init__(self, message: str) -> None:
        super().__init__(str(UserError(message)))


def say(message: str) -> None:
    """Say a `Notice`, from wherever it comes to light."""
    warnings.warn(Notice(message), stacklevel=3)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"`` for the known name nearest to ``name``, or ``""`` when none is near."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def one_of(where: str, value: object, known: Sequence[str]) -> str:
    """``value``, which must be one of the names in ``known``.

    Raises:
        UserError: it is not; ``where`` (an option, a file and line) and the nearest name are in the line.
    """
    if value not in known:
        hint = did_you_mean(str(value), known)
        raise UserError(f"{where} does not take {value!r}{hint}: it is one of {', '.join(known)}")
    return str(value)


def first_line(error: BaseException) -> str:
    """The first line of a message, and the next one too where it ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return (text or type(error).__name__)[:300]
