r"""Labelled tasks of the user's own: a file, or a folder of ``train``, ``dev`` and ``test`` files.

A file is a TSV (UTF-8, a header row, no quoting, rows end in ``\n``) or JSON Lines, either also as ``.gz`` or ``.zst``.
Its columns are ``sentence`` (or ``text``), for pairs ``sentence1`` and ``sentence2``, and ``label``, a class of any
name, or ``score``, a number. An ``id`` may identify the rows. Other columns are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.data.folder import missing_file
from holdfast.data.senteval import Row
from holdfast.data.tables import read_rows, refuse_repeated
from holdfast.data.untrusted_lines import (
    MAX_ROW_CHARS,
    PACKED,
    checked_text,
    json_object,
    numbered_lines,
    open_bytes,
    suffix_of,
)
from holdfast.errors import UserError, did_you_mean
from holdfast.files import expanded

_SPLITS = ("train", "dev", "test")
_KINDS = (".tsv", ".jsonl")
_READ_COLUMNS = ("sentence", "text", "sentence1", "sentence2", "label", "score", "id")
_REFUSED = (".csv", ".json", ".txt", ".parquet", ".xlsx")
_ADVICE = "a task has the columns sentence, or sentence1 and sentence2, and label (a class) or score (a number)"


def files_of(spec: str) -> dict[str, Path] | None:
    """Return the files of a task by split (``all`` for a file), or ``None`` if ``spec`` is neither file nor folder.

    Raises:
        UserError: the file does not exist or has an unsupported format, or the folder has no split or one split twice.
    """
    path = expanded(spec)
    if path.is_dir():
        return _folder(path)
    kind = suffix_of(path)
    if kind in _REFUSED:
        raise UserError(f"{path} cannot be a task: give a TSV (unquoted, with a header row) or JSON Lines, {_ADVICE}")
    if kind not in _KINDS:
        return None
    if not path.is_file():
        raise missing_file(path, "the task's file", "give a FILE.tsv or FILE.jsonl, or the name of a known task")
    return {"all": path}


def columns_of(path: Path) -> tuple[tuple[str, ...], str]:
    """Return the text columns, one or two, and the column of the label: ``label`` or ``score``.

    Raises:
        UserError: the file is empty, or a column is missing.
    """
    names = list(next(_records(path))[1])
    first = next((name for name in ("sentence1", "sentence", "text") if name in names), None)
    label = next((name for name in ("label", "score") if name in names), None)
    if first is None or label is None:
        wanted = "sentence" if first is None else "label"
        near = did_you_mean(wanted, names)
        raise UserError(f"{path}:1: no column {wanted!r}{near} among {', '.join(names)}: {_ADVICE}")
    return ((first, "sentence2") if "sentence2" in names else (first,)), label


def read(path: Path, columns: Sequence[str], label: str) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        UserError: the file cannot be read, a column is missing or a text is empty (with ``file:line``).
    """
    for number, record in _records(path):
        where = f"{path}:{number}"
        *texts, value = (_text(record, name, where) for name in (*columns, label))
        yield where, texts, value, ""


def repeated_ids(path: Path) -> int:
    """Return the number of rows with the ``id`` of an earlier row; 0 for a file without the column."""
    seen: set[str] = set()
    repeated = 0
    for _, record in _records(path):
        value = record.get("id")
        if value is None:
            continue
        repeated += str(value) in seen
        seen.add(str(value))
    return repeated


def _folder(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for split in _SPLITS:
        candidates = [folder / f"{split}{kind}{packed}" for kind in _KINDS for packed in ("", *PACKED)]
        existing = [path for path in candidates if path.is_file()]
        if len(existing) > 1:
            raise UserError(f"{folder} has {existing[0].name} and {existing[1].name}: leave one of them")
        if existing:
            found[split] = existing[0]
    if not found:
        raise UserError(f"{folder} is no task: it has no train.tsv, dev.tsv or test.tsv (or .jsonl; also .gz, .zst)")
    return found


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield ``(line number, fields by name)`` of a file with at least one row."""
    empty = True
    with open_bytes(path) as stream:
        if suffix_of(path) == ".tsv":
            rows = read_rows(stream, str(path))
            header = next(rows, (1, []))[1]
            refuse_repeated(_READ_COLUMNS, header, f"{path}:1")
            for number, fields in rows:
                empty = False
                if not fields:
                    raise UserError(f"{path}:{number}: the row is empty: remove the line")
                yield number, dict(zip(header, fields, strict=True))
        else:
            for number, line in numbered_lines(stream, str(path), MAX_ROW_CHARS):
                empty = False
                yield number, json_object(line, f"{path}:{number}", '{"sentence": "...", ...}')
    if empty:
        raise UserError(f"{path}:1: the file has no rows: {_ADVICE}")


def _text(record: dict[str, Any], name: str, where: str) -> str:
    """Return the stripped text of a column; it must not be empty."""
    value = record.get(name)
    # JSON may give a class or a score as a number; 1.0 and 1 are the same score, and true is not a class.
    if name in ("label", "score") and isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{where}: the {name} is {value}, which is no {name}: correct or remove the row")
        return str(value)
    if name not in record:
        raise UserError(f"{where}: no column {name!r}{did_you_mean(name, record)}: {_ADVICE}")
    text = checked_text(value, name, where).strip()
    if not text:
        raise UserError(f"{where}: the column {name!r} is empty: fill it in or remove the row")
    return text
