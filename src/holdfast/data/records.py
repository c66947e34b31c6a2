"""Readers of sentences, and of their positives if there are any, from files of all formats and from hub data sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.data.hub import HubSource, stream
from holdfast.data.sources import Part, kind_of
from holdfast.data.tables import choose_column, read_rows
from holdfast.data.untrusted_lines import (
    checked_text,
    json_object,
    numbered_lines,
    open_bytes,
    over_long,
    standard_input,
)
from holdfast.errors import UserError, first_line

Record = tuple[str, ...]
"""The texts of one record: the sentence, and its positive if a column of positives was requested."""
Columns = Sequence[str | None]
"""The column of the sentences (None if not given), and the column of their positives if they are requested."""

_OPTIONS = ("--column", "--positive-column")
# Rows of a Parquet file in memory at once.
_BATCH = 1000
_NOT_UTF8 = object()
# Maximum number of characters of a record (a TSV row, a JSON object) in addition to its sentence.
_RECORD_CHARS = 1 << 20


def read_records(parts: list[Part], columns: Columns, max_chars: int) -> Iterator[Record]:
    """Yield the texts in ``columns`` of each record, stripped, without line breaks; empty texts for a blank line.

    Raises:
        UserError: a record is malformed, or longer than ``max_chars`` (with ``file:line`` if there is one).
    """
    for part in parts:
        if isinstance(part, HubSource):
            yield from _read_hub(part, columns, max_chars)
        elif isinstance(part, str):
            yield from _read_text(standard_input(), "standard input", columns, max_chars)
        elif kind_of(part) == "parquet":
            yield from _read_parquet(part, columns, max_chars)
        else:
            reader = {"tsv": _read_tsv, "jsonl": _read_jsonl, "text": _read_text}[kind_of(part)]
            with open_bytes(part) as file:
                yield from reader(file, str(part), columns, max_chars)


def _read_text(file: Any, name: str, columns: Columns, max_chars: int) -> Iterator[Record]:
    for option, column in zip(_OPTIONS, columns, strict=False):
        if column is not None:
            raise UserError(f"{name} is plain text, a sentence per line, and has no column {column!r}: drop {option}")
    for _, line in numbered_lines(file, name, max_chars):
        yield (line.strip(),)


def _read_tsv(file: Any, name: str, columns: Columns, max_chars: int) -> Iterator[Record]:
    rows = read_rows(file, name, max_chars + _RECORD_CHARS)
    _, header = next(rows, (1, []))
    if not header:
        return
    chosen = _chosen(header, columns, f"{name}:1")
    places = [header.index(column) for column in chosen]
    for number, fields in rows:
        texts = [fields[place] if fields else "" for place in places]
        yield _cleaned(texts, chosen, f"{name}:{number}", max_chars)


def _read_jsonl(file: Any, name: str, columns: Columns, max_chars: int) -> Iterator[Record]:
    chosen: list[str] = []
    for number, line in numbered_lines(file, name, max_chars + _RECORD_CHARS):
        where = f"{name}:{number}"
        if not line.strip():
            yield ("",) * len(columns)
            continue
        record = json_object(line, where, '{"text": "..."}')
        chosen = chosen or _chosen(list(record), columns, where)
        yield _cleaned([record.get(column) for column in chosen], chosen, where, max_chars)


def _read_parquet(path: Path, columns: Columns, max_chars: int) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            chosen = _chosen(file.schema_arrow.names, columns, str(path))
            row = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=chosen):
                for texts in zip(*(_values(batch.column(column)) for column in chosen), strict=True):
                    row += 1
                    if any(text is _NOT_UTF8 for text in texts):
                        raise UserError(f"{path}: row {row}: not valid UTF-8: correct or remove the row")
                    yield _cleaned(texts, chosen, f"{path}: row {row}", max_chars)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file ({first_line(error)}): get it again") from error


def _values(column: Any) -> list[Any]:
    """Return the values of a column of Parquet, `_NOT_UTF8` for a text that is damaged."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value(value) for value in column]
    return values


def _value(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return _NOT_UTF8


def _read_hub(source: HubSource, columns: Columns, max_chars: int) -> Iterator[Record]:
    names, rows = stream(source)
    if not names:
        return
    chosen = _chosen(names, columns, str(source))
    for number, row in enumerate(rows, start=1):
        yield _cleaned([row.get(column) for column in chosen], chosen, f"{source}: row {number}", max_chars)


def _chosen(names: Sequence[str], columns: Columns, where: str) -> list[str]:
    """Return the columns to read, which must be different."""
    chosen = [choose_column(names, column, where) for column in columns]
    if len(set(chosen)) < len(chosen):
        raise UserError(f"{where}: {chosen[0]!r} holds the sentences: name another column with {_OPTIONS[1]}")
    return chosen


def _cleaned(values: Sequence[Any], columns: Sequence[str], where: str, max_chars: int) -> Record:
    """Return the record of checked texts; refuse one in which only some of them are empty."""
    texts = tuple(_clean(value, column, where, max_chars) for value, column in zip(values, columns, strict=True))
    if any(texts) and not all(texts):
        raise UserError(f"{where}: the column {columns[texts.index('')]!r} is empty: give each sentence its positive")
    return texts


def _clean(value: Any, column: str, where: str, max_chars: int) -> str:
    text = checked_text(value, column, where).strip()
    if len(text) > max_chars:
        raise over_long(where, len(text), max_chars)
    return text.replace("\r\n", " ").replace("\n", " ")
