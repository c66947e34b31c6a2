"""Collections in BEIR's layout: what is read, and the line that names a malformed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beir_folder import QRELS, write_collection
from holdfast.data.beir import collection_folder, read_collection
from holdfast.errors import UserError


@pytest.mark.parametrize("packed", [False, True])
def test_documents_queries_and_what_is_relevant(tmp_path: Path, packed: bool) -> None:
    found = read_collection(write_collection(tmp_path / "pets", packed=packed))
    assert (found.name, found.qrels, list(found.document_ids)) == ("pets", "test", ["d1", "d2", "d3", "d4"])
    assert list(found.documents()) == [
        "Dogs the old dog sleeps in the house",
        "a cat eats in the park",
        "the woman sings under the big red bed",
        "Parks a man runs in the park",
    ]
    assert [queries.name for queries in found.queries] == ["queries", "queries-keyboard"]
    assert list(found.queries[1].ids) == ["q1", "q2", "q3"]
    assert found.queries[1].texts[1] == "a cst eats"
    assert found.relevant == {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d3": 1}}


def test_the_hash_is_of_documents_and_relevance(tmp_path: Path) -> None:
    first = read_collection(write_collection(tmp_path / "a"))
    assert read_collection(write_collection(tmp_path / "b")).sha256 == first.sha256
    assert read_collection(write_collection(tmp_path / "c", qrels=QRELS[:2])).sha256 != first.sha256
    changed = [{"_id": "d1", "text": "another"}]
    assert read_collection(write_collection(tmp_path / "d", documents=changed)).sha256 != first.sha256


def test_clean_queries_come_first_and_numbers_are_ids(tmp_path: Path) -> None:
    queries = {"queries-asr": {"7": "b"}, "queries": {"7": "a"}}
    folder = write_collection(tmp_path, [{"_id": 3, "text": "x"}], queries, [("7", "3", 2)])
    found = read_collection(folder)
    assert [own.name for own in found.queries] == ["queries", "queries-asr"]
    assert (list(found.document_ids), found.relevant) == (["3"], {"7": {"3": 2}})


def test_the_split_is_test_or_the_only_one_or_the_one_named(tmp_path: Path) -> None:
    folder = write_collection(tmp_path, split="dev")
    assert read_collection(folder).qrels == "dev"
    write_collection(tmp_path, qrels=QRELS[:1], split="train")
    with pytest.raises(UserError, match=r"qrels has dev, train and no test: choose with --qrels"):
        read_collection(folder)
    assert set(read_collection(folder, qrels="train").relevant) == {"q1"}
    write_collection(tmp_path, qrels=QRELS[:2])
    assert set(read_collection(folder).relevant) == {"q1", "q2"}
    with pytest.raises(UserError, match=r"does not take 'tset' \(did you mean 'test'\?\)"):
        read_collection(folder, qrels="tset")


def _replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


WRONG = {
    r"corpus\.jsonl:2: not valid JSON": _replace("corpus.jsonl", '{"_id": "d2"', '{"_id: "d2"'),
    r"corpus\.jsonl:4: the _id 'd1' occurs twice, first in line 1": _replace("corpus.jsonl", '"d4"', '"d1"'),
    r"corpus\.jsonl:3: the column '_id' is missing": _replace("corpus.jsonl", '"_id": "d3", ', ""),
    r"corpus\.jsonl:1: the column 'text' is missing": _replace("corpus.jsonl", '"text": "the old', '"txt": "the old'),
    r"corpus\.jsonl:4: the column 'title' holds list": _replace("corpus.jsonl", '"Parks"', '["Parks"]'),
    r"queries-keyboard\.jsonl:3: the column 'text' holds int": _replace(
        "queries-keyboard.jsonl", '"the woman sibgs"', "3"
    ),
    r"test\.tsv:3: the score is 'high', not a whole number": _replace("qrels/test.tsv", "d2\t1", "d2\thigh"),
    r"test\.tsv:3: the score is '1000000000': grades of relevance are at most 10,000": _replace(
        "qrels/test.tsv", "d2\t1", "d2\t1000000000"
    ),
    r"test\.tsv:2: the row has 2 fields, the header has 3": _replace("qrels/test.tsv", "d1\t1", "d1"),
    r"test\.tsv:1: no column 'query-id'": _replace("qrels/test.tsv", "query-id", "query"),
    r"no document has a score above 0": _replace("qrels/test.tsv", "\t1\n", "\t0\n"),
    r"queries\.jsonl and .*queries\.jsonl\.gz are the same file in two forms": lambda folder: (
        folder / "queries.jsonl.gz"
    ).write_bytes(b""),
    r"has no queries\.jsonl: BEIR's layout is": lambda folder: [path.unlink() for path in folder.glob("queries*")],
    r"has no qrels/test\.tsv: BEIR's layout is": lambda folder: (folder / "qrels/test.tsv").unlink(),
    r"corpus\.jsonl: there is no document in it": lambda folder: (folder / "corpus.jsonl").write_text("\n"),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_malformed_is_named_with_its_line(tmp_path: Path, message: str) -> None:
    folder = write_collection(tmp_path)
    WRONG[message](folder)
    with pytest.raises(UserError, match=message):
        read_collection(folder)


def test_the_folder_is_the_data_folder_or_one_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    pets = write_collection(tmp_path / "pets")
    assert collection_folder("pets", tmp_path) == pets
    assert collection_folder(None, pets) == pets
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    assert collection_folder("pets", None) == pets
    with pytest.raises(UserError, match=r"retrieval:pest: .*did you mean 'pets'\?\): it has pets"):
        collection_folder("pest", tmp_path)
    with pytest.raises(UserError, match=r"has no corpus\.jsonl.*name one of its folders, retrieval:pets"):
        collection_folder(None, tmp_path)
    monkeypatch.delenv("HOLDFAST_DATA")
    with pytest.raises(UserError, match="give --data DIR or set HOLDFAST_DATA"):
        collection_folder("pets", None)
