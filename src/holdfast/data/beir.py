"""Reader of a retrieval collection in BEIR's layout: documents, queries, and which documents are relevant to a query.

The layout (Thakur et al. 2021): ``corpus.jsonl`` with ``_id``, ``title`` and ``text``; ``queries.jsonl`` with ``_id``
and ``text``; ``qrels/SPLIT.tsv`` with the header ``query-id corpus-id score``. Each file may end in ``.gz`` or
``.zst``. Further versions of the same queries are ``queries-NAME.jsonl``: equal ids are the same question.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.tables import read_columns
from holdfast.data.untrusted_lines import (
    MAX_ROW_CHARS,
    PACKED,
    checked_text,
    json_object,
    numbered_lines,
    open_bytes,
)
from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.files import expanded, sha256
from holdfast.number_ranges import short

CLEAN = "queries"
"""The name of the queries as they were asked; other files hold noisy versions of them."""

_LARGEST_GRADE = 10_000  # those of collections are 1 to 5; nDCG takes a list of all values up to the largest
_GRADE = re.compile(r"[+-]?[0-9]{1,4000}")
_LAYOUT = "BEIR's layout is corpus.jsonl, queries.jsonl and qrels/test.tsv"
_DOCUMENT = '{"_id": "1", "title": "", "text": "..."}'
_QUERY = '{"_id": "1", "text": "..."}'

Relevant = Mapping[str, Mapping[str, int]]
"""The grades (above 0) of the relevant documents, by the ids of the query and of the document."""


@dataclass(frozen=True)
class Queries:
    """The queries of one file.

    Attributes:
        name: the name of the file without its suffix: ``queries``, ``queries-keyboard``.
        ids: n different ids.
        texts: n texts.
        sha256: hash of the file.
        noise: the noise that was put into them, ``KIND=STRENGTH``; None: the queries of the file.
    """

    name: str
    ids: Sequence[str]
    texts: Sequence[str]
    sha256: str
    noise: str | None = None


@dataclass(frozen=True)
class Collection:
    """A retrieval collection whose files have been read once; the texts of the documents are not kept in memory.

    Attributes:
        folder: its folder.
        name: the name of the folder.
        corpus: the file of the documents.
        document_ids: the ids of the documents, in the order of the file.
        queries: the queries of each file, `CLEAN` first, then by name.
        qrels: the split of ``qrels/`` that was read, such as "test".
        relevant: the relevant documents of each query.
        sha256: hash of the documents and of the relevant documents.
    """

    folder: Path
    name: str
    corpus: Path
    document_ids: Sequence[str]
    queries: Sequence[Queries]
    qrels: str
    relevant: Relevant
    sha256: str

    @property
    def clean(self) -> Queries:
        """The queries as they were asked."""
        return next(queries for queries in self.queries if queries.name == CLEAN)

    def documents(self) -> Iterator[str]:
        """Yield the text of each document, in the order of the file: title, blank, text, stripped.

        Raises:
            UserError: as `read_collection`, if the file was changed in the meantime.
        """
        for _, text, _ in _documents(self.corpus):
            yield text

    def queries_in_corpus(self) -> dict[str, int]:
        """Return the queries that are documents, with the same id and text, and the places of these documents.

        BEIR's evaluation leaves them out of what a query finds, as in ArguAna, whose queries are arguments of the
        corpus. One that is relevant to itself is not among them. An id alone is no sign: both may be numbered from 1.

        Raises:
            UserError: as `documents`.
        """
        texts, known = dict(zip(self.clean.ids, self.clean.texts, strict=True)), set(self.document_ids)
        if not known & set(texts):
            return {}
        found = {}
        for place, (identifier, text, body) in enumerate(_documents(self.corpus)):
            if identifier not in texts or identifier in self.relevant.get(identifier, ()):
                continue
            if texts[identifier].strip() in (text, body):
                found[identifier] = place
        return found


def collection_folder(name: str | None, data: Path | None) -> Path:
    """Return the folder of a collection: ``name`` in the data folder, or the data folder itself if it is None.

    Raises:
        UserError: there is no data folder, or no collection there; the message names those that there are.
    """
    if data is not None and not expanded(data).is_dir():
        raise UserError(f"{data} is not a folder: retrieval needs one in BEIR's layout; {_LAYOUT}")
    root = data_folder(data)
    if root is None:
        raise UserError(f"retrieval needs a folder in BEIR's layout: give --data DIR or set {VARIABLE}")
    folder = root if name is None else root / name
    if _file(folder, "corpus.jsonl") is not None:
        return folder
    there = sorted(path.name for path in root.iterdir() if path.is_dir() and _file(path, "corpus.jsonl") is not None)
    if name is None:
        advice = f"name one of its folders, retrieval:{there[0]}" if there else _LAYOUT
        raise UserError(f"{root} has no corpus.jsonl, so it is no retrieval collection: {advice}")
    known = f": it has {', '.join(there)}" if there else f": {_LAYOUT}"
    raise UserError(f"retrieval:{name}: {folder} has no corpus.jsonl{did_you_mean(name, there)}{known}")


def read_collection(folder: Path, *, qrels: str | None = None) -> Collection:
    """Read the ids of the documents, all queries, and the relevant documents, and check every line.

    Args:
        folder: the folder of the collection.
        qrels: the split of ``qrels/``; None: "test", or the only one.

    Raises:
        UserError: a file is missing or malformed (with ``file:line``), an id occurs twice, or the split is not there.
    """
    corpus = _file(folder, "corpus.jsonl")
    if corpus is None:
        raise UserError(f"{folder} has no corpus.jsonl: {_LAYOUT}")
    split, file = _qrels_file(folder, qrels)
    relevant = _read_qrels(file)
    queries = [_read_queries(name, path) for name, path in _query_files(folder)]
    document_ids = [identifier for identifier, _, _ in _documents(corpus)]
    if not document_ids:
        raise UserError(f"{corpus}: there is no document in it: {_LAYOUT}")
    digest = hashlib.sha256(f"{sha256(corpus)} {sha256(file)}".encode()).hexdigest()
    return Collection(folder, folder.resolve().name, corpus, document_ids, queries, split, relevant, digest)


# --- files -------------------------------------------------------------------------------------------------------


def _file(folder: Path, name: str) -> Path | None:
    """Return the file with this name, or with a packed form of it; None if there is none; refuse two."""
    found = [path for path in (folder / f"{name}{end}" for end in ("", *PACKED)) if path.is_file()]
    if len(found) > 1:
        raise UserError(f"{found[0]} and {found[1]} are the same file in two forms: remove one")
    return found[0] if found else None


def _stems(paths: Iterator[Path], suffix: str) -> dict[str, Path]:
    """Return the files by their names without ``suffix`` and a packing suffix, sorted; refuse a name with two files."""
    found: dict[str, Path] = {}
    for path in sorted(paths):
        name = path.name.removesuffix(next((end for end in PACKED if path.name.endswith(end)), ""))
        if not name.endswith(suffix) or not path.is_file():
            continue
        stem = name.removesuffix(suffix)
        if stem in found:
            raise UserError(f"{found[stem]} and {path} are the same file in two forms: remove one")
        found[stem] = path
    return found


def _query_files(folder: Path) -> list[tuple[str, Path]]:
    files = _stems(folder.glob(f"{CLEAN}*"), ".jsonl")
    if CLEAN not in files:
        raise UserError(f"{folder} has no queries.jsonl: {_LAYOUT}")
    return sorted(files.items(), key=lambda file: (file[0] != CLEAN, file[0]))


def _qrels_file(folder: Path, split: str | None) -> tuple[str, Path]:
    files = _stems((folder / "qrels").glob("*"), ".tsv")
    if not files:
        raise UserError(f"{folder} has no qrels/test.tsv: {_LAYOUT}")
    if split is not None:
        split = one_of(f"--qrels of {folder}", split, tuple(files))
    elif "test" in files or len(files) == 1:
        split = "test" if "test" in files else next(iter(files))
    else:
        raise UserError(f"{folder / 'qrels'} has {', '.join(files)} and no test: choose with --qrels")
    return split, files[split]


# --- lines -------------------------------------------------------------------------------------------------------


def _records(path: Path, example: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield ``file:line``, the id and the object of each line that is not blank; refuse an id that occurs twice."""
    seen: dict[str, int] = {}
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path), MAX_ROW_CHARS):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            record = json_object(line, where, example)
            identifier = record.get("_id")
            if isinstance(identifier, int) and not isinstance(identifier, bool):
                identifier = str(identifier)
            identifier = checked_text(identifier, "_id", where)
            if identifier in seen:
                raise UserError(f"{where}: the _id {identifier!r} occurs twice, first in line {seen[identifier]}")
            seen[identifier] = number
            yield where, identifier, record


def _documents(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the id and the text of each document, with and without its title."""
    for where, identifier, record in _records(path, _DOCUMENT):
        title = record.get("title")
        title = "" if title is None else checked_text(title, "title", where)
        text = checked_text(record.get("text"), "text", where)
        yield identifier, f"{title} {text}".strip(), text.strip()


def _read_queries(name: str, path: Path) -> Queries:
    ids, texts = [], []
    for where, identifier, record in _records(path, _QUERY):
        ids.append(identifier)
        texts.append(checked_text(record.get("text"), "text", where))
    if not ids:
        raise UserError(f"{path}: there is no query in it: {_LAYOUT}")
    return Queries(name, ids, texts, sha256(path))


def _read_qrels(path: Path) -> Relevant:
    relevant: dict[str, dict[str, int]] = {}
    grades: dict[tuple[str, str], int] = {}
    for number, (query, document, score) in read_columns(path, ("query-id", "corpus-id", "score")):
        if not _GRADE.fullmatch(score.strip()):
            raise UserError(f"{path}:{number}: the score is {short(score)}, not a whole number")
        grade = int(score)
        if abs(grade) > _LARGEST_GRADE:
            raise UserError(
                f"{path}:{number}: the score is {short(score)}: grades of relevance are at most {_LARGEST_GRADE:,}"
            )
        if grade != grades.setdefault((query, document), grade):
            raise UserError(f"{path}:{number}: another score of query {query!r} and document {document!r} stands above")
        if grade > 0:
            relevant.setdefault(query, {})[document] = grade
    if not relevant:
        raise UserError(f"{path}: no document has a score above 0: there is nothing to find")
    return relevant
