"""Names of the tasks of the library mteb: ``mteb:STS12``, ``mteb:eng-v2``, ``mteb:package.module:Class=PATH``.

This module imports nothing heavy, and mteb only where it is asked for.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Sequence

from holdfast.errors import NotInstalled, UserError

PREFIX = "mteb:"
"""Prefix of the name of a task, or of a benchmark, of mteb."""
LEAST_PYTHON = (3, 11)
_BENCHMARK = re.compile(r"MTEB\((.+), (v[\w.]+)\)")


def is_mteb(task: str) -> bool:
    """Return True if a task's name, of ``--tasks`` or of a row of results, is one of mteb."""
    return task.startswith(PREFIX)


def split_tasks(text: str, own: Sequence[str]) -> list[str]:
    """Split names joined by commas; a comma in brackets, as in ``MTEB(eng, v2)``, is part of a name.

    A name after one of mteb belongs to mteb, too, unless it is one of the ``own`` names: ``mteb:STS12,SICK-R,sts`` are
    ``mteb:STS12``, ``mteb:SICK-R`` and ``sts``.
    """
    parts = [part.strip() for part in re.split(r",(?![^()]*\))", text)]
    names: list[str] = []
    for part in filter(None, parts):
        follows = bool(names) and is_mteb(names[-1]) and ":" not in part and part not in own
        names.append(PREFIX + part if follows else part)
    return names


def short_name(benchmark: str) -> str:
    """Return the short name of a benchmark: ``MTEB(eng, v2)`` is ``eng-v2``; others keep their names."""
    found = _BENCHMARK.fullmatch(benchmark)
    return f"{found[1].lower()}-{found[2]}" if found else benchmark


def require_mteb(asked: Iterable[str] = ()) -> None:
    """Check that mteb can be imported.

    Args:
        asked: names of the tasks that need it, for the message.

    Raises:
        NotInstalled: it is not installed, or this Python is older than mteb accepts.
    """
    what = ", ".join(asked) or "the export to mteb"
    if sys.version_info[:2] < LEAST_PYTHON:
        here, least = (".".join(map(str, version)) for version in (sys.version_info[:2], LEAST_PYTHON))
        raise NotInstalled(f"{what} needs the library mteb, which needs Python {least}; this is Python {here}")
    if importlib.util.find_spec("mteb") is None:
        raise NotInstalled(f"{what} needs the library mteb: pip install 'holdfast[mteb]'")


def refuse_without_text(name: str, modalities: Sequence[str]) -> None:
    """Refuse a task on anything but texts.

    Raises:
        UserError: it needs images, audio or video.
    """
    if list(modalities) != ["text"]:
        raise UserError(f"{PREFIX}{name} is a task on {', '.join(modalities)}: holdfast measures encoders of texts")
