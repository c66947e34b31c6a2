r"""Unquoted tables: a header row, then rows of tab-separated fields. A row is one line; quotes have no meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from holdfast.data.untrusted_lines import MAX_ROW_CHARS, numbered_lines, open_bytes
from holdfast.errors import UserError, did_you_mean


def read_rows(stream: IO[bytes], name: str, max_chars: int = MAX_ROW_CHARS) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of an unquoted TSV, the header row first; an empty line gives ``[]``.

    Raises:
        UserError: a row's number of fields differs from the header's, or as for `numbered_lines`.
    """
    width = 0
    for number, line in numbered_lines(stream, name, max_chars):
        fields = line.split("\t") if line or width == 1 else []
        if number == 1:
            if not fields:
                raise UserError(f"{name}:1: the first line is empty: a header row with the columns' names is expected")
            width = len(fields)
        elif fields and len(fields) != width:
            raise UserError(
                f"{name}:{number}: the row has {len(fields)} field{'s' * (len(fields) > 1)}, the header has {width}: "
                "fields are separated by one tab, unquoted, and a row is one line"
            )
        yield number, fields


def read_columns(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields of the named columns)`` for every row of a TSV file.

    A name that ends in ``?`` is an optional column: its field is ``''`` if the column is absent.

    Raises:
        UserError: the file cannot be read, is empty, lacks a column, or has a malformed row.
    """
    with open_bytes(path) as stream:
        rows = read_rows(stream, str(path))
        _, header = next(rows, (1, []))
        if not header:
            raise UserError(f"{path}:1: the file is empty: a header row is expected")
        places = [_place(name, header, path) for name in columns]
        for number, fields in rows:
            if not fields:
                raise UserError(f"{path}:{number}: the row is empty: remove the line")
            yield number, ["" if place is None else fields[place] for place in places]


def choose_column(columns: Sequence[str], wanted: str | None, where: str) -> str:
    """Return the column of the sentences: ``wanted``, else the only one, else ``sentence``, else ``text``.

    Raises:
        UserError: there is no such column, it occurs twice, or none can be chosen; the message lists the columns.
    """
    listed = ", ".join(columns)
    if wanted is not None and wanted not in columns:
        raise UserError(f"{where}: no column {wanted!r}{did_you_mean(wanted, columns)}; the columns are: {listed}")
    candidates = columns if len(columns) == 1 else [name for name in ("sentence", "text") if name in columns]
    chosen = wanted if wanted is not None else next(iter(candidates), None)
    if chosen is None:
        raise UserError(
            f"{where}: no column is called sentence or text: rename the one of the sentences, or name that of a corpus "
            f"with --column; the columns are: {listed}"
        )
    refuse_repeated([chosen], columns, where)
    return chosen


def refuse_repeated(names: Iterable[str], columns: Sequence[str], where: str) -> None:
    """Refuse a header that has one of ``names`` twice, which is ambiguous, with a `UserError`."""
    for name in names:
        if columns.count(name) > 1:
            raise UserError(f"{where}: {columns.count(name)} columns are called {name!r}: rename all but one of them")


def _place(name: str, header: Sequence[str], path: Path) -> int | None:
    if name.endswith("?"):
        refuse_repeated([name[:-1]], header, f"{path}:1")
        return header.index(name[:-1]) if name[:-1] in header else None
    return header.index(choose_column(header, name, f"{path}:1"))
