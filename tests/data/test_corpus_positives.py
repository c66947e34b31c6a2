"""Corpora with a positive of each sentence: the same pairs from every format, and none with an empty side."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.data.corpus import spool_corpus
from holdfast.errors import UserError

PAIRS = [(f"Sentence {number} stands\u2028 here.", f"Here stands, naïvely, no. {number}.") for number in range(1200)]


def spooled(path: Path, tmp_path: Path, **how: object) -> list[tuple[str, str]]:
    found = spool_corpus(str(path), positive_column="back", folder=tmp_path / "cache", **how)  # type: ignore[arg-type]
    assert found.sentences == len(found.dataset)
    assert found.dataset.column_names == ["sentence", "positive"]
    return list(zip(found.dataset["sentence"], found.dataset["positive"], strict=True))


def test_every_format_gives_the_same_pairs(tmp_path: Path) -> None:
    rows = "back\tid\tsentence\n" + "".join(f"{new} \t{n}\t {old}\n" for n, (old, new) in enumerate(PAIRS))
    (tmp_path / "a.tsv").write_text(rows + "\n", encoding="utf-8")
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    records = [json.dumps({"sentence": old, "back": new}) for old, new in PAIRS]
    (tmp_path / "a.jsonl").write_text("\n\n".join(records) + "\n")
    columns = {"back": [new for _, new in PAIRS], "sentence": [old for old, _ in PAIRS]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for name in ("a.tsv", "a.tsv.gz", "a.jsonl", "a.parquet"):
        assert spooled(tmp_path / name, tmp_path) == PAIRS
    assert len(list((tmp_path / "cache").glob("*.arrow"))) == 1


def test_pairs_are_not_taken_for_sentences_that_hold_a_tab(tmp_path: Path) -> None:
    lines = [f"{old}\t{new}" for old, new in PAIRS]
    (tmp_path / "a.tsv").write_text("\n".join(["sentence\tback", *lines]))
    (tmp_path / "a.txt").write_text("\n".join(lines))
    pairs = spooled(tmp_path / "a.tsv", tmp_path)
    alone = spool_corpus(str(tmp_path / "a.txt"), folder=tmp_path / "cache")
    assert alone.dataset.column_names == ["sentence"]
    assert len(list((tmp_path / "cache").glob("*.arrow"))) == 2
    assert spooled(tmp_path / "a.tsv", tmp_path) == pairs == PAIRS
    sentences = spool_corpus(str(tmp_path / "a.tsv"), column="sentence", folder=tmp_path / "cache")
    assert sentences.dataset.column_names == ["sentence"]


@pytest.mark.parametrize(
    ("name", "content", "column", "message"),
    [
        ("a.tsv", "sentence\tback\na\tb\nc\t \n", None, "a.tsv:3: the column 'back' is empty: give each sentence its"),
        ("a.tsv", "sentence\tback\n\t \n\tb\n", None, "a.tsv:3: the column 'sentence' is empty: give each sentence"),
        ("a.jsonl", '{"text": "a", "back": ""}', None, "a.jsonl:1: the column 'back' is empty"),
        ("a.jsonl", '{"text": "a"}', None, "a.jsonl:1: no column 'back'; the columns are: text"),
        ("a.jsonl", '{"text": "a", "back": "b"}\n{"text": "c"}', None, "a.jsonl:2: the column 'back' is missing"),
        ("a.tsv", "sentence\tbeck\na\tb\n", None, r"a.tsv:1: no column 'back' \(did you mean 'beck'\?\)"),
        (
            "a.tsv",
            "sentence\tback\na\tb\n",
            "back",
            "a.tsv:1: 'back' holds the sentences: name another column with --po",
        ),
        (
            "a.tsv",
            f"sentence\tback\na\t{'b' * 31}\n",
            None,
            "a.tsv:2: the line is 31 characters long, over the limit of 30",
        ),
        (
            "a.txt",
            "a\nb\n",
            None,
            "is plain text, a sentence per line, and has no column 'back': drop --positive-column",
        ),
    ],
)
def test_what_is_wrong_with_pairs(tmp_path: Path, name: str, content: str, column: str | None, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        spooled(tmp_path / name, tmp_path, column=column, max_chars=30)
    assert list((tmp_path / "cache").glob("*")) == [] if (tmp_path / "cache").exists() else True


def test_rows_without_either_side_are_blank(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("sentence\tback\n\t \na\tb\n\n")
    found = spool_corpus(str(tmp_path / "a.tsv"), positive_column="back", folder=tmp_path / "cache")
    assert (found.sentences, found.skipped_blank) == (1, 2)
