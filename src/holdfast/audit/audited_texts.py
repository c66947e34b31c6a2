"""The texts of an audit: a corpus of the user, or a default."""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import dataclass
from pathlib import Path

from holdfast.data.corpus import read_corpus
from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.python_prose import load_python_prose
from holdfast.data.registry import ScoredPairs, load_pairs, locate
from holdfast.data.tasks import task_named
from holdfast.data.untrusted_lines import MAX_ROW_CHARS
from holdfast.edits.words import Words
from holdfast.errors import UserError

DEFAULT_SOURCES = ("STS-B dev", "this Python's documentation")
"""Names of the sources from which texts are drawn where none is given, the first that is there."""

POOL = 1000
"""Number of texts of the neighbour search, from which the texts of each item are the first ones."""
CORPUS_HEAD = 100_000
"""Maximum number of lines, from the beginning of a corpus, that texts are sampled from."""


@dataclass(frozen=True)
class Texts:
    """The audited texts, distinct and in random order, so that the first texts are a random sample.

    Attributes:
        texts: m texts, truncated to the maximum number of words if there is one.
        numbers: position of each in the source, from 0.
        source: their source.
        sha256: hash of the texts joined by line breaks.
        available: number of distinct texts to sample from.
        cut: number of texts truncated at the maximum number of words.
    """

    texts: list[str]
    numbers: list[int]
    source: str
    sha256: str
    available: int
    cut: int


def choose_texts(texts: str | None, *, data: Path | None, count: int, max_words: int | None, seed: int) -> Texts:
    """Sample texts from the corpus ``texts``, else from STS-B dev if present, else from this Python's documentation.

    Raises:
        UserError: the corpus cannot be read, or it has fewer than two distinct texts.
    """
    lines, source = _source(texts, data)
    shortened = [truncate_words(line, max_words) for line in lines] if max_words is not None else lines
    first: dict[str, int] = {}
    for number, text in enumerate(shortened):
        first.setdefault(text, number)
    if len(first) < 2:
        raise UserError(f"{source}: an audit compares texts with one another and needs at least two different texts")
    order = list(first)
    chosen = random.Random(f"{seed}/texts").sample(order, min(count, len(order)))
    numbers = [first[text] for text in chosen]
    digest = hashlib.sha256("\n".join(chosen).encode()).hexdigest()
    cut = sum(shortened[number] != lines[number] for number in numbers)
    return Texts(chosen, numbers, source, digest, len(order), cut)


def _source(texts: str | None, data: Path | None) -> tuple[list[str], str]:
    if texts is not None:
        lines = list(itertools.islice(read_corpus(texts, data=data, max_chars=MAX_ROW_CHARS), CORPUS_HEAD))
        return lines, texts
    pairs = local_sts("dev", data)
    if pairs is not None:
        return [*pairs.sentences1, *pairs.sentences2], DEFAULT_SOURCES[0]
    try:
        return load_python_prose(), DEFAULT_SOURCES[1]
    except UserError as error:
        raise UserError(
            "this Python has too little documentation to sample texts from: name a corpus with --texts"
        ) from error


def truncate_words(text: str, words: int | None) -> str:
    """Truncate a text after ``words`` words; None: return the whole text."""
    if words is None:
        return text
    spans = Words.of(text).spans
    return text if len(spans) <= words else text[: spans[words - 1][1]]


def local_sts(split: str, data: Path | None) -> ScoredPairs | None:
    """Load a split of STS-B if the data folder has it, otherwise return None: an audit downloads nothing."""
    folder = data_folder(data)
    if folder is None or not locate(task_named("stsb").split(split), folder):
        return None
    return load_pairs("stsb", split, data=data)


def sts_missing(data: Path | None) -> str:
    """Return the reason why an item without STS-B is absent: where STS-B dev is expected."""
    folder = data_folder(data)
    where = f"{folder} has no stsb/dev.tsv" if folder is not None else f"give --data DIR or set {VARIABLE}"
    return f"needs STS-B dev: {where}"
