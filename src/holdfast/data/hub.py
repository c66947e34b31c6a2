"""Data sets of the Hugging Face hub through `datasets`, with one line instead of minutes of retries when offline."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
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
        data_files: one file of the repository, where it is not the whole of it that is wanted.
    """

    name: str
    config: str | None = None
    split: str = "train"
    data_files: str | None = None

    def __str__(self) -> str:
        return ":".join(part for part in (f"hf:{self.name}", self.config, self.split) if part)


def parse_hub(spec: str) -> HubSource:
    """``owner/name[:config][:split]`` as a `HubSource`.

    One part after the name is the split when it is called like one (``train``, ``validation``, ``test``, ...), else
    the configuration; the split is ``train`` unless given.

    Raises:
        UserError: no name, or too many parts.
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
    """The column names of a hub data set and an iterator over its rows, downloaded as they are read.

    Raises:
        UserError: the hub cannot be reached, or it has no such data set; later, if reading breaks off.
    """
    if variable := _switched_off():
        raise UserError(f"{source} is on the hub, and {variable} forbids the network: unset it or give a local file")
    _refuse_unreachable(source, "connect, or give a local file")
    rows: Iterator[dict[str, Any]] = _rows(source, iter(_load(source, streaming=True)))
    first = next(rows, None)
    if first is None:
        return [], iter(())
    return list(first), _with_first(first, rows)


def load(source: HubSource) -> Any:
    """A hub data set as a `datasets.Dataset`, downloaded once and then taken from the cache of `datasets`.

    Raises:
        UserError: the hub cannot be reached (and the cache may not be asked, or lacks it), or no such data set.
    """
    if not _switched_off():
        _refuse_unreachable(source, "connect, give --data, or set HF_HUB_OFFLINE=1 to use a copy downloaded earlier")
    return _load(source, streaming=False)


def _load(source: HubSource, streaming: bool) -> Any:
    import datasets

    try:
        return datasets.load_dataset(
            source.name, source.config, split=source.split, data_files=source.data_files, streaming=streaming
        )
    # The library raises a dozen unrelated types here, and to the user all of them mean "that did not load".
    except Exception as error:
        raise _failed(source, error) from error


def _rows(source: HubSource, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except Exception as error:
            raise _failed(source, error) from error
        yield row


def _with_first(first: dict[str, Any], rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield first
    yield from rows


def _failed(source: HubSource, error: Exception) -> UserError:
    reason = first_line(error)
    return UserError(f"the hub data set {source} could not be loaded ({reason}): check its name, or give a local file")


def _switched_off() -> str | None:
    return next((name for name in _OFFLINE_VARIABLES if os.environ.get(name, "").upper() in _TRUE), None)


def _refuse_unreachable(source: HubSource, advice: str) -> None:
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if not _reachable(endpoint):
        raise UserError(f"{source} is on the hub, and {endpoint} cannot be reached: {advice}")


def _reachable(endpoint: str) -> bool:
    """Whether anything answers. `datasets` itself retries for half a minute and more before it says no."""
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=_PROBE_SECONDS):
            return True
    except (urllib.error.HTTPError, http.client.HTTPException):
        return True  # an error page is an answer
    except (OSError, ValueError):
        return False
