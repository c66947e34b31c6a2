r"""Corpora: unlabelled sentences, read one at a time from anywhere, then spooled once to a memory-mapped file.

A corpus is read as a stream, never whole in memory. Training needs a shuffle of the whole corpus, so `spool_corpus`
makes one validating pass that writes the sentences to an Arrow file; the trainer then draws a seeded permutation of
row numbers and reads rows from the memory map. Ten million sentences cost eighty megabytes of row numbers.

    corpus = spool_corpus("mine.txt.gz", at_least=64)
    for sentence in shuffled(corpus, seed=42):
        ...
"""

from __future__ import annotations

import hashlib
import json
import stat
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.data.hub import HubSource, stream
from holdfast.data.lines import json_object, numbered_lines, open_bytes, over_long, standard_input
from holdfast.data.sources import Part, kind_of, resolve
from holdfast.data.tables import choose_column, read_rows
from holdfast.errors import UserError, first_line
from holdfast.files import atomic_path, cache_folder, cannot_write, sha256, write_json

if TYPE_CHECKING:
    import datasets

MAX_CHARS = 10_000
# Rows per Arrow record batch: the granularity of random access, and all that is held in memory while spooling.
_BATCH = 1000
# A record (a TSV row, a JSON object) holds more than its sentence; this much more is accepted.
_RECORD_CHARS = 1 << 20
# Part of the cache key: raise it when the same file would be read into different sentences.
_READER_VERSION = 1


@dataclass(frozen=True)
class SpooledCorpus:
    """A corpus on disk, memory-mapped.

    Attributes:
        dataset: ``len(dataset)`` sentences in one column, ``sentence``, in the order of the source.
        sentences: how many.
        sha256: of the sentences joined by ``\\n``: the same whatever file format they came in.
        source: as the user wrote it.
        skipped_blank: blank lines left out.
    """

    dataset: datasets.Dataset
    sentences: int
    sha256: str
    source: str
    skipped_blank: int

    def facts(self) -> dict[str, Any]:
        """The attributes but ``dataset``: what `found_again` takes."""
        return {name: value for name, value in vars(self).items() if name != "dataset"}


def read_corpus(
    source: str, *, column: str | None = None, data: Path | None = None, max_chars: int = MAX_CHARS
) -> Iterator[str]:
    r"""Yield the sentences of a corpus one at a time, stripped; blank ones are left out.

    A line break inside a sentence (JSON Lines and Parquet can hold one) becomes one space.

    Args:
        source: a text file with a sentence per line, ``.tsv`` (header row, unquoted), ``.jsonl``; each also as
            ``.gz`` or ``.zst``; ``.parquet``; a glob pattern of such files; the name of a registered corpus
            (``wiki``); ``hf:owner/name[:config][:split]``; ``-`` for standard input; or several, joined by commas.
        column: which column holds the sentences; by default the only one, else ``sentence``, else ``text``.
        data: the data folder; by default the one ``HOLDFAST_DATA`` names.
        max_chars: the longest sentence accepted, in characters.

    Raises:
        UserError: one line with ``file:line`` where there is one. What is named wrongly is told at once, what is wrong
            inside a file when reading gets there, an empty corpus at its end.
    """
    parts = resolve(source, data)
    return _only_sentences(source, _read_parts(parts, column, max_chars))


def spool_corpus(
    source: str,
    *,
    column: str | None = None,
    data: Path | None = None,
    max_chars: int = MAX_CHARS,
    at_least: int = 1,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> SpooledCorpus:
    """Read a corpus once, checking all of it, and keep it as a memory-mapped Arrow file.

    An unchanged corpus of local files (same paths, sizes and times) is not read again. The file is written under a
    temporary name first, so that nothing half-written stays behind.

    Args:
        source: what to read; this, ``column``, ``data`` and ``max_chars`` are as for `read_corpus`.
        column: see `read_corpus`.
        data: see `read_corpus`.
        max_chars: see `read_corpus`.
        at_least: the fewest sentences that are of any use, a batch as a rule.
        folder: where to keep the file; by default ``$HOLDFAST_CACHE/corpora``, else ``~/.cache/holdfast/corpora``.
        progress: called now and then with the number of sentences read so far.

    Raises:
        UserError: what `read_corpus` raises; too few sentences; the disk is full or the folder not writable.
    """
    parts = resolve(source, data)
    folder = folder if folder is not None else cache_folder("corpora")
    before = _fingerprint(parts, column, max_chars)
    memo = None if before is None else folder / f"{hashlib.sha256(before.encode()).hexdigest()[:32]}.json"
    spooled = _recall(memo, folder, source)
    if spooled is None:
        spooled, written = _spool(source, _read_parts(parts, column, max_chars), folder, at_least, progress)
        # A file that changed while it was being read must not be remembered as either of its two states.
        if memo is not None and _fingerprint(parts, column, max_chars) == before:
            write_json(memo, written)
    if spooled.sentences < at_least:
        raise _too_few(source, spooled.sentences, at_least)
    return spooled


def found_again(corpus: dict[str, Any], folder: Path | None = None) -> SpooledCorpus:
    """A spooled corpus in another process, from its `SpooledCorpus.facts`; its file is there.

    Args:
        corpus: the attributes but ``dataset``.
        folder: as for `spool_corpus`.
    """
    folder = folder if folder is not None else cache_folder("corpora")
    return SpooledCorpus(dataset=_map(folder / f"{corpus['sha256']}.arrow"), **corpus)


def shuffled(corpus: SpooledCorpus, seed: int) -> Iterator[str]:
    """Yield every sentence of ``corpus`` once, in an order that ``seed`` alone decides.

    The order is ``numpy.random.default_rng(seed).permutation(n)``; the sentences stay on disk.
    """
    import numpy as np

    order = np.random.default_rng(seed).permutation(corpus.sentences)
    for start in range(0, corpus.sentences, _BATCH):
        yield from corpus.dataset[order[start : start + _BATCH]]["sentence"]


# Reading. Every reader yields "" for a blank line, so that blanks can be counted.


def _only_sentences(source: str, sentences: Iterator[str]) -> Iterator[str]:
    empty = True
    for sentence in sentences:
        if sentence:
            empty = False
            yield sentence
    if empty:
        raise _empty(source)


def _read_parts(parts: list[Part], column: str | None, max_chars: int) -> Iterator[str]:
    for part in parts:
        if isinstance(part, HubSource):
            yield from _read_hub(part, column, max_chars)
        elif isinstance(part, str):
            yield from _read_text(standard_input(), "standard input", column, max_chars)
        elif kind_of(part) == "parquet":
            yield from _read_parquet(part, column, max_chars)
        else:
            reader = {"tsv": _read_tsv, "jsonl": _read_jsonl, "text": _read_text}[kind_of(part)]
            with open_bytes(part) as file:
                yield from reader(file, str(part), column, max_chars)


def _read_text(file: Any, name: str, column: str | None, max_chars: int) -> Iterator[str]:
    if column is not None:
        raise UserError(f"{name} is plain text, a sentence per line, and has no column {column!r}: drop --column")
    for _, line in numbered_lines(file, name, max_chars):
        yield line.strip()


def _read_tsv(file: Any, name: str, column: str | None, max_chars: int) -> Iterator[str]:
    rows = read_rows(file, name, max_chars + _RECORD_CHARS)
    _, header = next(rows, (1, []))
    if not header:
        return
    place = header.index(choose_column(header, column, f"{name}:1"))
    for number, fields in rows:
        text = fields[place].strip() if fields else ""
        if len(text) > max_chars:
            raise over_long(f"{name}:{number}", len(text), max_chars)
        yield text


def _read_jsonl(file: Any, name: str, column: str | None, max_chars: int) -> Iterator[str]:
    chosen: str | None = None
    for number, line in numbered_lines(file, name, max_chars + _RECORD_CHARS):
        where = f"{name}:{number}"
        if not line.strip():
            yield ""
            continue
        record = json_object(line, where, '{"text": "..."}')
        if chosen is None:
            chosen = choose_column(list(record), column, where)
        yield _clean(record.get(chosen), chosen, where, max_chars)


def _read_parquet(path: Path, column: str | None, max_chars: int) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            chosen = choose_column(file.schema_arrow.names, column, str(path))
            row = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=[chosen]):
                for value in batch.column(0).to_pylist():
                    row += 1
                    yield _clean(value, chosen, f"{path}: row {row}", max_chars)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file ({first_line(error)}): get it again") from error


def _read_hub(source: HubSource, column: str | None, max_chars: int) -> Iterator[str]:
    columns, rows = stream(source)
    if not columns:
        return
    chosen = choose_column(columns, column, str(source))
    for number, row in enumerate(rows, start=1):
        yield _clean(row.get(chosen), chosen, f"{source}: row {number}", max_chars)


def _clean(value: Any, column: str, where: str, max_chars: int) -> str:
    if not isinstance(value, str):
        what = "is missing" if value is None else f"holds {type(value).__name__}, not text"
        raise UserError(f"{where}: the column {column!r} {what}: give every row a string")
    text = value.strip()
    if len(text) > max_chars:
        raise over_long(where, len(text), max_chars)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(f"{where}: the column {column!r} holds half a surrogate pair: mend or drop it") from error
    return text.replace("\r\n", " ").replace("\n", " ")


# Spooling.


def _spool(
    source: str, sentences: Iterator[str], folder: Path, at_least: int, progress: Callable[[int], None] | None
) -> tuple[SpooledCorpus, dict[str, Any]]:
    """Write the sentences to ``folder`` and map them; also the facts to remember about the file."""
    # The final name is the hash, known only at the end; until then the name is nobody else's.
    provisional = folder / f"spool-{uuid.uuid4().hex}.arrow"
    with atomic_path(provisional) as temporary:
        count, blank, digest = _write_arrow(temporary, sentences, progress)
        if not count:
            raise _empty(source)
        if count < at_least:
            raise _too_few(source, count, at_least)
    path = folder / f"{digest}.arrow"
    try:
        provisional.replace(path)
        facts = {"sha256": digest, "sentences": count, "skipped_blank": blank, "file_sha256": sha256(path)}
    except OSError as error:
        provisional.unlink(missing_ok=True)
        raise cannot_write(path, error) from error
    return SpooledCorpus(_map(path), count, digest, source, blank), facts


def _write_arrow(path: Path, sentences: Iterator[str], progress: Callable[[int], None] | None) -> tuple[int, int, str]:
    """Write an Arrow stream of one column; give the number of sentences and of blank lines, and the content's hash."""
    import pyarrow as pa

    schema = pa.schema([("sentence", pa.string())])
    digest, count, blank = hashlib.sha256(), 0, 0
    with path.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        batch: list[str] = []

        def flush() -> None:
            nonlocal count
            digest.update((("\n" if count else "") + "\n".join(batch)).encode())
            writer.write_batch(pa.record_batch([pa.array(batch, pa.string())], schema=schema))
            count += len(batch)
            batch.clear()
            if progress is not None:
                progress(count)

        for sentence in sentences:
            if not sentence:
                blank += 1
                continue
            batch.append(sentence)
            if len(batch) == _BATCH:
                flush()
        if batch:
            flush()
    return count, blank, digest.hexdigest()


def _map(path: Path) -> datasets.Dataset:
    import datasets

    return datasets.Dataset.from_file(str(path))


def _recall(memo: Path | None, folder: Path, source: str) -> SpooledCorpus | None:
    """The spooled corpus that ``memo`` remembers, or ``None`` when there is none or anything about it is off."""
    if memo is None or not memo.is_file():
        return None
    try:
        facts = json.loads(memo.read_text(encoding="utf-8"))
        path = folder / f"{facts['sha256']}.arrow"
        # Hashing a gigabyte takes a second or two; training for hours on damaged text would go unnoticed.
        if sha256(path) != facts["file_sha256"]:
            return None
        return SpooledCorpus(_map(path), facts["sentences"], facts["sha256"], source, facts["skipped_blank"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _fingerprint(parts: list[Part], column: str | None, max_chars: int) -> str | None:
    """What identifies a corpus of plain local files without reading them, or ``None`` for anything else."""
    files = []
    for part in parts:
        if not isinstance(part, Path):
            return None
        try:
            status = part.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        files.append([str(part.resolve()), status.st_size, status.st_mtime_ns])
    return json.dumps([_READER_VERSION, files, column, max_chars])


def _empty(source: str) -> UserError:
    return UserError(f"the corpus {source} holds no sentences: give at least one line of text")


def _too_few(source: str, count: int, at_least: int) -> UserError:
    sentences = "1 sentence" if count == 1 else f"{count:,} sentences"
    return UserError(
        f"the corpus {source} holds {sentences}, fewer than one batch of {at_least:,}: "
        "give more text or a smaller --batch-size"
    )
