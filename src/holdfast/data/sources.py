"""Resolution of the value of ``--corpus`` to files, data sets and streams."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.data.folder import data_folder, missing_file
from holdfast.data.hub import HubSource, parse_hub
from holdfast.data.untrusted_lines import PACKED, suffix_of
from holdfast.errors import UserError, did_you_mean
from holdfast.files import expanded

STDIN = "-"
SUFFIXES = (".txt", ".tsv", ".jsonl", ".ndjson", ".parquet")
_ADVICE = (
    "give a file with a sentence per line, a .tsv, .jsonl or .parquet file, hf:owner/name, or - for standard input"
)
_REFUSED = {
    ".csv": "quotes in a text can break the rows of CSV: convert it to .jsonl, .parquet or an unquoted .tsv",
    ".json": "give .jsonl, one JSON object per line",
    ".zip": "unpack it first",
    ".bz2": "unpack it first",
    ".xz": "unpack it first",
}
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:[\w.+-]+){0,2}")


@dataclass(frozen=True)
class CorpusEntry:
    """A registered corpus: files under the data folder, else a hub data set."""

    name: str
    pattern: str
    hub: HubSource | None
    licence: str
    rows: int | None = None


_WIKI1M = HubSource("princeton-nlp/datasets-for-simcse", data_files="wiki1m_for_simcse.txt")
_WIKIPEDIA = "CC BY-SA 3.0 (Wikipedia contributors)"
CORPORA: tuple[CorpusEntry, ...] = (
    CorpusEntry("wiki", "unlabelled/wiki_train_*.tsv*", _WIKI1M, _WIKIPEDIA, 1_000_000),
    CorpusEntry("wiki-dev", "unlabelled/wiki_dev.tsv*", None, _WIKIPEDIA, 10_000),
    CorpusEntry("wiki1m-head", "unlabelled/wiki1m_for_simcse_head.tsv*", None, _WIKIPEDIA, 11_914),
)

Part = Path | HubSource | str
"""One source to read: a file, a hub data set, or `STDIN`."""


def resolve(source: str, data: Path | None = None) -> list[Part]:
    """Return the files, hub data sets and streams of ``source``, in reading order; nothing is opened.

    Args:
        source: a path, a glob pattern, the name of a registered corpus, ``hf:owner/name[:config][:split]``, ``-``,
            or several of these joined by commas. Relative paths are searched in the working directory first, then in
            the data folder.
        data: the data folder; by default the folder in ``HOLDFAST_DATA``.

    Raises:
        UserError: a source does not exist, is a folder, or has an unsupported format.
    """
    folder = data_folder(data)
    whole = expanded(source)
    pieces = [source] if "," not in source or whole.exists() else [piece.strip() for piece in source.split(",")]
    if not all(pieces):
        raise UserError(f"the corpus {source!r} has an empty part: {_ADVICE}")
    parts = [part for piece in pieces for part in _resolve_one(piece, folder)]
    if parts.count(STDIN) > 1:
        raise UserError("standard input (-) can be read only once: name it once")
    return parts


def read_once(source: str, data: Path | None = None) -> bool:
    """Return True if a part of ``source`` can be read only once: standard input, or a pipe such as <(zcat …).

    Raises:
        UserError: as for `resolve`.
    """
    return any(part == STDIN or (isinstance(part, Path) and not part.is_file()) for part in resolve(source, data))


def kind_of(path: Path) -> str:
    """Return ``text``, ``tsv``, ``jsonl`` or ``parquet``, from the file's name without ``.gz`` or ``.zst``."""
    known = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
    return known.get(suffix_of(path), "text")


def corpus_files(entry: CorpusEntry, folder: Path | None) -> list[Path]:
    """Return the files of a registered corpus under ``folder``, sorted; empty if there are none."""
    return [] if folder is None else sorted(path for path in folder.glob(entry.pattern) if path.is_file())


def local_wikipedia(data: Path | None = None) -> str | None:
    """Return the name of the Wikipedia corpus if its files are in the data folder, else None."""
    entry = CORPORA[0]
    return entry.name if corpus_files(entry, data_folder(data)) else None


def _resolve_one(piece: str, folder: Path | None) -> list[Part]:
    if piece == STDIN:
        return [STDIN]
    if piece.startswith("hf:"):
        return [parse_hub(piece)]
    for path in _candidates(piece, folder):
        if path.exists():
            return [_check_file(path)]
    entry = next((entry for entry in CORPORA if entry.name == piece), None)
    if entry is not None:
        return _resolve_entry(entry, folder)
    if glob.has_magic(piece):
        return _resolve_glob(piece, folder)
    if _HUB_NAME.fullmatch(piece) and not _looks_like_file(piece):
        return [parse_hub(piece)]
    known = did_you_mean(piece, [entry.name for entry in CORPORA]) if "/" not in piece and "." not in piece else ""
    raise missing_file(expanded(piece), "the corpus", _ADVICE + known)


def _candidates(piece: str, folder: Path | None) -> list[Path]:
    path = expanded(piece)
    return [path] if folder is None or path.is_absolute() else [path, folder / path]


def _resolve_entry(entry: CorpusEntry, folder: Path | None) -> list[Part]:
    files = corpus_files(entry, folder)
    if files:
        return list(files)
    if folder is None and entry.hub is not None:
        return [entry.hub]
    where = f"no {entry.pattern} in {folder}" if folder else "no data folder is set"
    # The hub's corpus of that name has other sentences, so it does not replace missing files of a named folder.
    hub = "" if entry.hub is None else f", or leave out both for {entry.hub}"
    raise UserError(f"the corpus {entry.name!r} is not here ({where}): give --data or set HOLDFAST_DATA{hub}")


def _resolve_glob(pattern: str, folder: Path | None) -> list[Part]:
    for candidate in _candidates(pattern, folder):
        # Path.glob accepts no absolute patterns, and these may be absolute.
        names = sorted(glob.glob(str(candidate), recursive=True))  # noqa: PTH207
        files = [_check_file(Path(name)) for name in names]
        if files:
            return list(files)
    raise UserError(f"no file matches {pattern!r}: check the pattern, and quote it so that the shell leaves it alone")


def _check_file(path: Path) -> Path:
    if path.is_dir():
        raise UserError(f"the corpus {path} is a folder: name its files, for example '{path}/*.txt'")
    if (suffix := suffix_of(path)) in _REFUSED:
        raise UserError(f"the corpus {path} cannot be read: {_REFUSED[suffix]}")
    return path


def _looks_like_file(piece: str) -> bool:
    name = Path(piece)
    return name.suffix in (*SUFFIXES, *PACKED, *_REFUSED) or name.parent.is_dir()
