"""Data sets of the Hugging Face hub through `datasets`, with an immediate one-line error when offline."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import UserError, first_line

_OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
_TRUE = {"1", "ON", "YES", "TRUE"}
_PROBE_SECONDS = 5.0
_SPLITS = {"train", "validation", "valid", "dev", "test", "unsupervised", "all"}


@dataclass(frozen=True)
class HubSource:
    """One split of a hub data set.

    Args:
        name: ``owner/name``.
        config: the configuration (subset), or ``None`` for the default one.
        split: the split, in the notation of `datasets` (``train``, ``train+validation``).
        data_files: one file of the repository, if not the whole repository is used.
    """

    name: str
    config: str | None = None
    split: str = "train"
    data_files: str | None = None

    def __str__(self) -> str:
        return ":".join(part for part in (f"hf:{self.name}", self.config, self.split) if part)


def parse_hub(spec: str) -> HubSource:
    """Parse ``owner/name[:config][:split]`` to a `HubSource`.

    A single part after the name is the split if it is a usual name of a split (``train``, ``validation``, ``test``,
    ...), else the configuration; the default split is ``train``.

    Raises:
        UserError: there is no name, or there are too many parts.
    """
    name, *rest = spec.removeprefix("hf:").split(":")
    if not name or len(rest) > 2 or not all(rest):
        raise UserError(f"{spec!r} is not a hub data set: write hf:owner/name[:config][:split]")
    if len(rest) == 2:
        return HubSource(name, rest[0], rest[1])
    if rest and rest[0] in _SPLITS:
        return HubSource(name, split=rest[0])
    return HubSource(name, rest[0] if rest else None)


def stream(source: HubSource) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """Return the column names of a hub data set and an iterator over its rows, which are downloaded while read.

    Raises:
        UserError: the hub cannot be reached, or has no such data set; during iteration, if reading fails.
    """
    if variable := _switched_off():
        raise UserError(f"{source} is on the hub, and {variable} forbids the network: unset it or give a local file")
    _refuse_unreachable(source, "connect, or give a local file")
    rows: Iterator[dict[str, Any]] = _rows(source, _load(source, streaming=True))
    first = next(rows, None)
    if first is None:
        return [], iter(())
    return list(first), itertools.chain([first], rows)


def load(source: HubSource) -> Any:
    """Load a hub data set as a `datasets.Dataset`; it is downloaded once and then read from the cache of `datasets`.

    Raises:
        UserError: the hub cannot be reached, the data set does not exist, or offline mode is set and it is not cached.
    """
    if not _switched_off():
        _refuse_unreachable(source, "connect, give --data, or set HF_HUB_OFFLINE=1 to use a copy downloaded earlier")
    return _load(source, streaming=False)


def _load(source: HubSource, streaming: bool) -> Any:
    import datasets

    with _one_line_errors(source):
        return datasets.load_dataset(
            source.name, source.config, split=source.split, data_files=source.data_files, streaming=streaming
        )


def _rows(source: HubSource, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    with _one_line_errors(source):
        yield from rows


@contextlib.contextmanager
def _one_line_errors(source: HubSource) -> Iterator[None]:
    try:
        yield
    # The library raises many unrelated types here; for the user all of them mean that loading failed.
    except Exception as error:
        reason = first_line(error)
        raise UserError(
            f"the hub data set {source} could not be loaded ({reason}): check its name, or give a local file"
        ) from error


def _switched_off() -> str | None:
    return next((name for name in _OFFLINE_VARIABLES if os.environ.get(name, "").upper() in _TRUE), None)


def _refuse_unreachable(source: HubSource, advice: str) -> None:
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if not _reachable(endpoint):
        raise UserError(f"{source} is on the hub, and {endpoint} cannot be reached: {advice}")


def _reachable(endpoint: str) -> bool:
    """Return True if the endpoint answers. `datasets` itself retries for half a minute or more before it fails."""
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_PROBE_SECONDS):
            return True
    except (urllib.error.HTTPError, http.client.HTTPException):
        return True  # an error response is an answer
    except (OSError, ValueError):
        return False
