r"""Corpora of unlabelled sentences, read one at a time from any source and spooled once to a memory-mapped file.

A corpus can also hold a positive of each sentence, such as its back-translation, in a separate column.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.data.records import Columns, Record, read_records
from holdfast.data.sources import Part, resolve
from holdfast.errors import UserError
from holdfast.files import atomic_path, cache_folder, cannot_write, remembered, sha256, write_json

if TYPE_CHECKING:
    import datasets

MAX_CHARS = 10_000
# Rows per Arrow record batch: the granularity of random access, and the number of rows in memory while spooling.
_BATCH = 1000
# Part of the cache key: increase it when the same file would give different sentences.
_READER_VERSION = 1

_NAMES = ("sentence", "positive")


@dataclass(frozen=True)
class SpooledCorpus:
    """A corpus on disk, memory-mapped.

    Attributes:
        dataset: ``len(dataset)`` sentences in the column ``sentence``, in the order of the source; their positives, if
            requested, in the column ``positive``.
        sentences: number of sentences.
        sha256: hash of the sentences joined by ``\\n``, each followed by NUL and its positive if there are positives;
            it does not depend on the file format.
        source: the source as the user wrote it.
        skipped_blank: number of blank lines left out.
    """

    dataset: datasets.Dataset
    sentences: int
    sha256: str
    source: str
    skipped_blank: int

    def facts(self) -> dict[str, Any]:
        """Return all attributes except ``dataset``, as an argument for `open_spooled`."""
        return {name: value for name, value in vars(self).items() if name != "dataset"}


def read_corpus(
    source: str,
    *,
    column: str | None = None,
    positive_column: str | None = None,
    data: Path | None = None,
    max_chars: int = MAX_CHARS,
) -> Iterator[str]:
    r"""Yield the sentences of a corpus one at a time, stripped; blank ones are left out.

    A line break inside a sentence (JSON Lines and Parquet can hold one) becomes one space.

    Args:
        source: a text file with a sentence per line, ``.tsv`` (header row, unquoted), ``.jsonl``; each also as
            ``.gz`` or ``.zst``; ``.parquet``; a glob pattern of such files; the name of a registered corpus
            (``wiki``); ``hf:owner/name[:config][:split]``; ``-`` for standard input; or several, joined by commas.
        column: the column of the sentences; by default the only one, else ``sentence``, else ``text``.
        positive_column: a column with a positive of each sentence, which the corpus must have; it is not yielded.
        data: the data folder; by default the folder in ``HOLDFAST_DATA``.
        max_chars: maximum length of a sentence, in characters.

    Raises:
        UserError: one line, with ``file:line`` if there is one. A wrong name is reported at once, an error inside a
            file when it is reached, and an empty corpus at its end.
    """
    parts = resolve(source, data)
    columns = _columns(column, positive_column)
    return _only_sentences(source, read_records(parts, columns, max_chars))


def spool_corpus(
    source: str,
    *,
    column: str | None = None,
    positive_column: str | None = None,
    data: Path | None = None,
    max_chars: int = MAX_CHARS,
    at_least: int = 1,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> SpooledCorpus:
    """Read and check a whole corpus once, and store it as a memory-mapped Arrow file.

    An unchanged corpus of local files (same paths, sizes and times) is not read again. The file is first written under
    a temporary name, so that no incomplete file remains. ``source``, ``column``, ``data`` and ``max_chars`` are as for
    `read_corpus`.

    Args:
        positive_column: the column with a positive of each sentence; None: there are no positives.
        at_least: minimum number of sentences, usually one batch.
        folder: the folder of the file; by default ``$HOLDFAST_CACHE/corpora``, else ``~/.cache/holdfast/corpora``.
        progress: called regularly with the number of sentences read so far.

    Raises:
        UserError: as for `read_corpus`; positives are requested from plain text, a sentence has no positive or a
            positive has no sentence; there are too few sentences; the disk is full or the folder is not writable.
    """
    parts = resolve(source, data)
    folder = folder if folder is not None else cache_folder("corpora")
    columns = _columns(column, positive_column)
    before = _fingerprint(parts, columns, max_chars)
    memo = None if before is None else folder / f"{hashlib.sha256(before.encode()).hexdigest()[:32]}.json"
    spooled = None if memo is None else _recall(memo, folder, source)
    if spooled is None:
        records = read_records(parts, columns, max_chars)
        spooled, written = _spool(source, records, _NAMES[: len(columns)], folder, at_least, progress)
        # Do not remember a file that changed while it was read.
        if memo is not None and _fingerprint(parts, columns, max_chars) == before:
            write_json(memo, {"key": memo.stem, **written})
    if spooled.sentences < at_least:
        raise _too_few(source, spooled.sentences, at_least)
    return spooled


def spool_texts(
    source: str,
    texts: Iterable[str],
    *,
    at_least: int = 1,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> SpooledCorpus:
    """Store texts that were read already, stripped and without line breaks, as `spool_corpus` stores a corpus.

    Raises:
        UserError: as for `spool_corpus`, on too few texts or a folder that cannot be written.
    """
    records = ((text,) for text in texts)
    folder = folder if folder is not None else cache_folder("corpora")
    return _spool(source, records, _NAMES[:1], folder, at_least, progress)[0]


def open_spooled(corpus: dict[str, Any], folder: Path | None = None) -> SpooledCorpus:
    """Open a spooled corpus in another process from its `SpooledCorpus.facts`; its file must exist in ``folder``."""
    folder = folder if folder is not None else cache_folder("corpora")
    return SpooledCorpus(dataset=_map(folder / f"{corpus['sha256']}.arrow"), **corpus)


def shuffled(corpus: SpooledCorpus, seed: int) -> Iterator[str]:
    """Yield every sentence of ``corpus`` once, in an order that depends only on ``seed``.

    The order is ``numpy.random.default_rng(seed).permutation(n)``; the sentences stay on disk.
    """
    import numpy as np

    order = np.random.default_rng(seed).permutation(corpus.sentences)
    for start in range(0, corpus.sentences, _BATCH):
        yield from corpus.dataset[order[start : start + _BATCH]]["sentence"]


def _columns(column: str | None, positive_column: str | None) -> Columns:
    return (column,) if positive_column is None else (column, positive_column)


def _only_sentences(source: str, records: Iterator[Record]) -> Iterator[str]:
    empty = True
    for sentence, *_ in records:
        if sentence:
            empty = False
            yield sentence
    if empty:
        raise _empty(source)


def _spool(
    source: str,
    records: Iterator[Record],
    names: Sequence[str],
    folder: Path,
    at_least: int,
    progress: Callable[[int], None] | None,
) -> tuple[SpooledCorpus, dict[str, Any]]:
    """Write the sentences to ``folder``, and return the mapped corpus and the facts to remember about the file."""
    # The final name is the hash, which is known only at the end; the temporary name is unique.
    provisional = folder / f"spool-{uuid.uuid4().hex}.arrow"
    with atomic_path(provisional) as temporary:
        count, blank, digest = _write_arrow(temporary, records, names, progress)
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


def _write_arrow(
    path: Path, records: Iterator[Record], names: Sequence[str], progress: Callable[[int], None] | None
) -> tuple[int, int, str]:
    """Write an Arrow stream; return the number of sentences, the number of blank lines, and the content's hash."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in names])
    digest, count, blank = hashlib.sha256(), 0, 0
    with path.open("wb") as file, pa.ipc.new_stream(file, schema) as writer:
        batch: list[Record] = []

        def flush() -> None:
            nonlocal count
            digest.update((("\n" if count else "") + "\n".join(map("\0".join, batch))).encode())
            columns = [pa.array(texts, pa.string()) for texts in zip(*batch, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            count += len(batch)
            batch.clear()
            if progress is not None:
                progress(count)

        for record in records:
            if not record[0]:
                blank += 1
                continue
            batch.append(record)
            if len(batch) == _BATCH:
                flush()
        if batch:
            flush()
    return count, blank, digest.hexdigest()


def _map(path: Path) -> datasets.Dataset:
    import datasets

    return datasets.Dataset.from_file(str(path))


def _recall(memo: Path, folder: Path, source: str) -> SpooledCorpus | None:
    """Return the spooled corpus in the record ``memo``, or ``None`` if there is none or it is damaged."""
    facts = remembered(memo)
    try:
        path = folder / f"{facts['sha256']}.arrow"
        # Hashing a gigabyte takes one or two seconds; without it, training on damaged text would not be noticed.
        if sha256(path) != facts["file_sha256"]:
            return None
        return SpooledCorpus(_map(path), facts["sentences"], facts["sha256"], source, facts["skipped_blank"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _fingerprint(parts: list[Part], columns: Columns, max_chars: int) -> str | None:
    """Return an identifier of a corpus of local files without reading them, or ``None`` for other sources."""
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
        # The name says how the file is read, and may be that of a link to a file of another one.
        files.append([str(part.resolve()), part.name, status.st_size, status.st_mtime_ns])
    return json.dumps([_READER_VERSION, files, columns, max_chars])


def _empty(source: str) -> UserError:
    return UserError(f"the corpus {source} holds no sentences: give at least one line of text")


def _too_few(source: str, count: int, at_least: int) -> UserError:
    sentences = "1 sentence" if count == 1 else f"{count:,} sentences"
    return UserError(
        f"the corpus {source} holds {sentences}, fewer than one batch of {at_least:,}: "
        "give more text or a smaller --batch-size"
    )
