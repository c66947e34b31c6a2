"""Inventory of the known data: its location and its integrity. These functions print nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.registry import locate
from holdfast.data.sources import CORPORA, CorpusEntry, corpus_files
from holdfast.data.tables import read_rows
from holdfast.data.tasks import TASKS, Split, Task, hub_sources, sources
from holdfast.data.untrusted_lines import open_bytes
from holdfast.errors import UserError
from holdfast.files import sha256

MISSING = "missing"
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class DataRow:
    """One task, resource or corpus.

    Attributes:
        name: the id for loading.
        kind: ``sts``, ``transfer``, ``classification``, ``pairs``, ``nli``, ``attack``, ``paraphrase``, ``lexicon``
            or ``corpus``.
        splits: the local splits; if there are none, the known splits.
        where: a local path, ``hf:owner/name`` or ``missing``.
        rows: number of rows of the listed splits, as published or from the manifest; ``None`` if it is not known.
        licence: the licence or terms.
    """

    name: str
    kind: str
    splits: tuple[str, ...]
    where: str
    rows: int | None
    licence: str


@dataclass(frozen=True)
class CheckRow:
    """The state of one file.

    Attributes:
        file: path relative to the data folder.
        status: ``ok``, ``changed`` (different from what is expected, or not readable) or ``missing``.
        rows: number of rows without the header; ``None`` if the file is missing, unreadable or not a table.
        sha256: hash of the file's bytes, ``""`` if it is missing or unreadable.
        note: description of a problem, ``""`` if there is none.
    """

    file: str
    status: Literal["ok", "changed", "missing"]
    rows: int | None
    sha256: str
    note: str


def list_data(data: Path | None = None) -> list[DataRow]:
    """List all known tasks, resources and corpora with their locations: in the data folder, or on the hub without one.

    Raises:
        UserError: the named folder does not exist, or its manifest is damaged.
    """
    folder = data_folder(data)
    counts = {name: entry.get("rows") for name, entry in _manifest(folder).items()}
    return [
        *(_task_row(task, folder, counts) for task in TASKS),
        *(_corpus_row(corpus, folder, counts) for corpus in CORPORA),
    ]


def check_data(data: Path | None = None) -> list[CheckRow]:
    """Read every known file of the data folder to its end, and compare it with the manifest if there is one.

    Without a ``manifest.json`` (a list ``files`` of ``{file, rows, sha256}``) a file is ``ok`` if it can be read
    without an error and has the published number of rows.

    Raises:
        UserError: no folder is named, it does not exist, or its manifest is damaged.
    """
    folder = data_folder(data)
    if folder is None:
        raise UserError(f"there is no data folder to check: give --data or set {VARIABLE}")
    manifest = _manifest(folder)
    expected: dict[str, int | None] = {name: entry.get("rows") for name, entry in manifest.items()}
    for path, rows in _known_files(folder):
        expected.setdefault(path.relative_to(folder).as_posix(), rows)
    if not expected:
        raise UserError(f"{folder} holds none of the known data sets: give the folder of <dataset>/<split>.tsv.gz")
    return [_check(folder, name, expected[name], manifest.get(name)) for name in sorted(expected)]


def _task_row(task: Task, folder: Path | None, counts: dict[str, Any]) -> DataRow:
    paths_of_split = {split: locate(split, folder) for split in task.splits} if folder is not None else {}
    local = {split: paths for split, paths in paths_of_split.items() if paths}
    if folder is not None and local:
        rows = [_local_rows(split, local[split], folder, counts) for split in _distinct(local)]
        where = _common(next(iter(local.values())), folder)
        return DataRow(task.name, task.kind, _names(local), where, _sum(rows), task.licence)
    remote = [split for split in task.splits if hub_sources(split)]
    if remote:
        where = ",".join(dict.fromkeys(f"hf:{source.name}" for split in remote for source in hub_sources(split)))
        return DataRow(
            task.name, task.kind, _names(remote), where, _sum([s.rows for s in _distinct(remote)]), task.licence
        )
    return DataRow(task.name, task.kind, _names(task.splits), MISSING, None, task.licence)


def _corpus_row(corpus: CorpusEntry, folder: Path | None, counts: dict[str, Any]) -> DataRow:
    files = corpus_files(corpus, folder)
    if folder is not None and files:
        rows = _sum([counts.get(path.relative_to(folder).as_posix()) for path in files])
        return DataRow(corpus.name, "corpus", ("train",), str(folder / corpus.pattern), rows, corpus.licence)
    where = f"hf:{corpus.hub.name}" if corpus.hub is not None else MISSING
    rows = corpus.rows if corpus.hub is not None else None
    return DataRow(corpus.name, "corpus", ("train",), where, rows, corpus.licence)


def _distinct(splits: Iterable[Split]) -> Iterator[Split]:
    """Yield the splits except those made only of earlier ones, so that rows are counted once."""
    seen: frozenset[str] = frozenset()
    for split in splits:
        if not sources(split) <= seen:
            yield split
        seen |= sources(split)


def _names(splits: Any) -> tuple[str, ...]:
    return tuple(split.name for split in splits)


def _sum(rows: list[int | None]) -> int | None:
    known = [count for count in rows if count is not None]
    return sum(known) if len(known) == len(rows) else None


def _local_rows(split: Split, paths: list[Path], folder: Path, counts: dict[str, Any]) -> int | None:
    listed = [counts.get(path.relative_to(folder).as_posix()) for path in paths]
    return _sum(listed) if counts and not split.relabel else split.rows


def _common(paths: list[Path], folder: Path) -> str:
    parents = {path.parent for path in paths}
    return str(parents.pop()) if len(parents) == 1 else str(folder)


def _known_files(folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield the known local files with their expected number of rows, or ``None`` if it is not known per file."""
    for task in TASKS:
        for split in task.splits:
            for text in ("raw", "senteval") if split.senteval else ("raw",):
                paths = locate(split, folder, text) or []
                for path in paths:
                    yield path, split.rows if len(paths) == 1 and not split.relabel else None
    for corpus in CORPORA:
        files = corpus_files(corpus, folder)
        for path in files:
            yield path, corpus.rows if len(files) == 1 else None


def _check(folder: Path, name: str, rows: int | None, entry: dict[str, Any] | None) -> CheckRow:
    path = folder / name
    try:
        if not path.is_file():
            return CheckRow(name, "missing", None, "", "the manifest lists it")
        digest, counted = sha256(path), _count_rows(path)
    except (UserError, OSError) as error:
        return CheckRow(name, "changed", None, "", str(error))
    wanted = (entry or {}).get("sha256")
    if wanted is not None and digest != wanted:
        return CheckRow(name, "changed", counted, digest, f"its sha256 is not the manifest's ({wanted[:12]}...)")
    if rows is not None and counted is not None and counted != rows:
        return CheckRow(name, "changed", counted, digest, f"it holds {counted:,} rows, {rows:,} are expected")
    return CheckRow(name, "ok", counted, digest, "")


def _count_rows(path: Path) -> int | None:
    if ".tsv" not in path.suffixes:
        return None  # SentEval's files: some have headers, some have lines without a score
    with open_bytes(path) as file:
        return sum(1 for _ in read_rows(file, str(path))) - 1


def _manifest(folder: Path | None) -> dict[str, dict[str, Any]]:
    if folder is None or not (folder / _MANIFEST).is_file():
        return {}
    path = folder / _MANIFEST
    try:
        entries = [dict(entry) for entry in json.loads(path.read_text(encoding="utf-8"))["files"]]
        for entry in entries:
            _check_entry(entry)
        return {entry["file"]: entry for entry in entries}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a manifest ({error}): it is a JSON object whose 'files' name file and sha256"
        ) from error


def _check_entry(entry: dict[str, Any]) -> None:
    """Raise a ValueError for an invalid entry of a manifest, or a file outside the data folder."""
    name, rows, digest = entry["file"], entry.get("rows"), entry.get("sha256")
    if not isinstance(name, str) or not name.isprintable() or Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f"{name!r} is no file of the folder")
    if not isinstance(digest, (str, type(None))) or not isinstance(rows, (int, type(None))):
        raise ValueError(f"the rows or the sha256 of {name!r} are no number or no text")
