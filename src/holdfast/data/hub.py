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
_ADVICE = "connect, give --data, or set HF_HUB_OFFLINE=1 to use a copy downloaded earlier"
_SPLITS = {"train", "validation", "valid", "dev", "test", "unsupervised", "all"}


@dataclass(frozen=True)
class HubSource:
    """One split of a hub data set.

    Args:
        name: ``owner/name``.
        config: the configuration (subset), or ``None`` for the default one.
        split: the split, in the notation of `datasets` (``train``, ``train+validation``).
        data_files: one file of the repository, if not the whole repository is used.
        archive: a .tar file of the repository in SentEval's layout, which has the split (`holdfast.data.hub_archive`).
    """

    name: str
    config: str | None = None
    split: str = "train"
    data_files: str | None = None
    archive: str | None = None

    def __str__(self) -> str:
        if self.archive is not None:
            return f"hf:{self.name}/{self.archive}"
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
    if rest and set(rest[0].split("+")) <= _SPLITS:
        return HubSource(name, split=rest[0])
    return HubSource(name, rest[0] if rest else None)


def stream(source: HubSource) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """Return the column names of a hub data set and an iterator over its rows, which are downloaded while read.

    Raises:
        UserError: the hub cannot be reached, or has no such data set; during iteration, if reading fails.
    """
    _refuse_streaming(source)
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
    if not switched_off():
        refuse_unreachable(source)
    return _load(source, streaming=False)


def check(source: HubSource, *, streamed: bool = False, reachable: bool | None = None) -> None:
    """Raise the error of `load`, or of `stream`, for a data set that is not there, without a download of its rows.

    Args:
        source: the data set.
        streamed: whether it is to be read with `stream`.
        reachable: the result of `hub_reachable`, where it is known already.

    Raises:
        UserError: the hub cannot be reached, the data set or its split does not exist, or offline mode is set and it is
            not cached.
    """
    import datasets

    if streamed:
        _refuse_streaming(source, reachable=reachable)
    elif not switched_off():
        refuse_unreachable(source, reachable=reachable)
    with _one_line_errors(source):
        builder = datasets.load_dataset_builder(source.name, source.config, data_files=source.data_files)
    known = builder.info.splits
    for split in source.split.split("+"):
        if known and split not in known:
            raise UserError(f"{source}: the hub data set has no split {split!r}, only {', '.join(known)}: give --data")


def _refuse_streaming(source: HubSource, *, reachable: bool | None = None) -> None:
    if variable := switched_off():
        raise UserError(f"{source} is on the hub, and {variable} forbids the network: unset it or give a local file")
    refuse_unreachable(source, "connect, or give a local file", reachable=reachable)


def hub_reachable() -> bool:
    """Return True if the hub answers within `_PROBE_SECONDS`."""
    return _reachable(_endpoint())


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


def switched_off() -> str | None:
    """Return the name of the variable that forbids the network; None if none does."""
    return next((name for name in _OFFLINE_VARIABLES if os.environ.get(name, "").upper() in _TRUE), None)


def refuse_unreachable(source: HubSource, advice: str = _ADVICE, *, reachable: bool | None = None) -> None:
    """Raise a `UserError` if the hub cannot be reached; ``reachable`` says so where it is known already."""
    if not (_reachable(_endpoint()) if reachable is None else reachable):
        raise UserError(f"{source} is on the hub, and {_endpoint()} cannot be reached: {advice}")


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


def _reachable(endpoint: str) -> bool:
    """Return True if the endpoint answers. `datasets` itself retries for half a minute or more before it fails."""
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_PROBE_SECONDS):
            return True
    except (urllib.error.HTTPError, http.client.HTTPException):
        return True  # an error response is an answer
    except (OSError, ValueError):
        return False
