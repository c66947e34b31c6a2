"""The questions of `noiseqa/`: as written, as people typed them or a recogniser heard them, and what changed."""

from __future__ import annotations

import csv
import json
import string
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

_MARKS = string.punctuation + "“”‘’"


class Question(NamedTuple):
    """A question, as written and as changed, and the id of its paragraph."""

    clean: str
    changed: str
    paragraph: str


def texts(file: Path) -> dict[str, str]:
    """Texts of a file of lines ``{_id, text}``, by id."""
    with file.open(encoding="utf-8") as lines:
        return {row["_id"]: row["text"] for row in map(json.loads, lines)}


def questions(data: Path, version: str = "keyboard", chosen: bool | None = None) -> list[Question]:
    """All questions; with ``chosen`` those of every other paragraph (True: for choices; False: for tests)."""
    folder = data / "noiseqa"
    clean, changed = texts(folder / "queries.jsonl"), texts(folder / f"queries-{version}.jsonl")
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as lines:
        paragraph = {row["query-id"]: row["corpus-id"] for row in csv.DictReader(lines, delimiter="\t")}
    half = {name: number % 2 == 0 for number, name in enumerate(texts(folder / "corpus.jsonl"))}
    found = [Question(clean[name], changed[name], paragraph[name]) for name in clean]
    return [each for each in found if chosen is None or half[each.paragraph] == chosen]


def changed_words(question: Question) -> Iterator[tuple[str, str]]:
    """Pairs of a word and what it became, one to one, without punctuation at its ends."""
    for old, new in _differences(question):
        if len(old) == len(new):
            yield from ((a, b) for a, b in zip(old, new, strict=True) if a and b and a != b)


def words_apart(question: Question) -> Iterator[str]:
    """``"join"`` for each two words that became one, ``"split"`` for each word that became two."""
    for old, new in _differences(question):
        if "".join(old).lower() == "".join(new).lower() and abs(len(old) - len(new)) == 1:
            yield "join" if len(old) > len(new) else "split"


def _differences(question: Question) -> Iterator[tuple[list[str], list[str]]]:
    old, new = ([word.strip(_MARKS) for word in text.split()] for text in question[:2])
    for name, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if name != "equal":
            yield old[i:j], new[k:m]


def paragraphs(data: Path) -> dict[str, str]:
    """All paragraphs, by id; a title goes before its text."""
    with (data / "noiseqa" / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in rows}
