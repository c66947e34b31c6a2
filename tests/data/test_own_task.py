"""A labelled task of one's own: a file or a folder, in place of a task's name."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.data import own_tasks
from holdfast.data.registry import is_local, load_graded, load_labelled, load_pairs
from holdfast.data.tasks import task_named
from holdfast.errors import UserError


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)


def table(path: Path, *rows: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{row}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def jsonl(path: Path, *rows: dict[str, Any]) -> str:
    return table(path, *(json.dumps(row) for row in rows))


def test_a_file_with_classes_of_any_name(tmp_path: Path) -> None:
    name = table(tmp_path / "my.tsv", "id\tlabel\tsentence", '1\tgut so\tein " Hund', "2\tschlecht\teine Katze ")
    task = task_named(name)
    assert (task.name, task.kind, task.columns, [split.name for split in task.splits]) == (
        *(name, "classification"),
        *(("sentence",), ["all"]),
    )
    assert task.is_own
    assert is_local(name, "all")
    found = load_labelled(name, "all")
    assert (found.sentences1, found.sentences2) == (['ein " Hund', "eine Katze"], None)
    assert (found.labels, found.classes, found.source) == ([0, 1], ["gut so", "schlecht"], name)
    packed = table(tmp_path / "packed.tsv.gz", "sentence\tlabel", 'ein " Hund\tgut so', "eine Katze\tschlecht")
    lines = jsonl(
        tmp_path / "my.jsonl",
        {"text": 'ein " Hund', "label": "gut so"},
        {"text": "eine Katze", "label": "schlecht", "x": [1]},
    )
    assert {load_labelled(other, "all").sha256 for other in (packed, lines)} == {found.sha256}


def test_numbers_as_classes_keep_their_order(tmp_path: Path) -> None:
    rows = [{"sentence": f"s{n}", "label": n} for n in (10, 2, 1, 10)]
    found = load_labelled(jsonl(tmp_path / "my.jsonl", *rows), "all")
    assert (found.classes, found.labels) == (["1", "2", "10"], [2, 1, 0, 2])
    rows = [{"sentence": f"s{n}", "label": n} for n in (10.5, -2, 1.5, -1, 2)]
    assert load_labelled(jsonl(tmp_path / "signed.jsonl", *rows), "all").classes == ["-2", "-1", "1.5", "2", "10.5"]
    rows = [{"sentence": f"s{n}", "label": label} for n, label in enumerate((0, 1, 1.0, "b", "1"))]
    found = load_labelled(jsonl(tmp_path / "mixed.jsonl", *rows), "all")
    assert (found.classes, found.labels) == (["0", "1", "b"], [0, 1, 1, 2, 1]), "1 and 1.0 are one class"
    long = "9" * 5000  # more digits than int() takes
    found = load_labelled(table(tmp_path / "my.tsv", HEAD, f"a dog\t{long}", "a cat\t10", "a cow\t010", "b\tc"), "all")
    assert found.classes == ["010", "10", long, "c"]


def test_a_folder_of_pairs(tmp_path: Path) -> None:
    for split, label in {"train": "a", "dev": "b", "test": "c"}.items():
        table(tmp_path / "mine" / f"{split}.tsv", "sentence1\tsentence2\tlabel", f"one\ttwo\t{label}")
    name = str(tmp_path / "mine")
    task = task_named(name)
    assert (task.kind, task.columns, task.grouped) == ("pairs", ("sentence1", "sentence2"), True)
    assert [load_labelled(name, split.name).classes for split in task.splits] == [["a"], ["b"], ["c"]]
    assert load_labelled(name, "dev").sentences2 == ["two"]


def test_scores(tmp_path: Path) -> None:
    pairs = table(tmp_path / "pairs.tsv", "sentence1\tsentence2\tscore", "a\tb\t2.50", "c\td\t0")
    assert task_named(pairs).kind == "sts"
    assert load_graded(pairs, "all").texts == [("a", "b"), ("c", "d")]
    assert load_graded(pairs, "all").scores == load_pairs(pairs, "all").scores == [2.5, 0.0]
    assert load_graded(pairs, "all").sha256 == load_pairs(pairs, "all").sha256
    single = jsonl(tmp_path / "single.jsonl", {"sentence": "a", "score": 1}, {"sentence": "b", "score": -0.5})
    assert task_named(single).kind == "regression"
    assert (load_graded(single, "all").texts, load_graded(single, "all").scores) == ([("a",), ("b",)], [1.0, -0.5])
    with pytest.raises(UserError, match="cannot be loaded as sts"):
        load_pairs(single, "all")


def test_known_names_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "sst2" / "train.tsv", "sentence\tlabel", "a\t1")
    assert not task_named("sst2").is_own
    assert task_named("./sst2").is_own


def test_repeated_ids_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "my.tsv"
    table(path, "id\tsentence\tlabel", "7\ta\t0", "8\tb\t1", "7\tc\t0", "7\td\t1")
    assert own_tasks.repeated_ids(path) == 2
    table(path, "sentence\tlabel", "a\t0", "a\t0")
    assert own_tasks.repeated_ids(path) == 0


HEAD = "sentence\tlabel"
BAD_FILES = [
    ((), "my.tsv:1: the file has no rows"),
    ((HEAD,), "my.tsv:1: the file has no rows"),
    (("text\tclass", "a\t1"), "my.tsv:1: no column 'label'.* among text, class"),
    (("sentense\tlabel", "a\t1"), "my.tsv:1: no column 'sentence' .did you mean 'sentense'"),
    ((HEAD, "a\t1", "b"), "my.tsv:3: the row has 1 field, the header has 2"),
    ((HEAD, "a\t1", "", "b\t1"), "my.tsv:3: the row is empty"),
    ((HEAD, "a\t1", " \t1"), "my.tsv:3: the column 'sentence' is empty"),
    ((HEAD, "a\t"), "my.tsv:2: the column 'label' is empty"),
    (("sentence\tlabel\tlabel", "a\t1\t0"), "my.tsv:1: 2 columns are called 'label'"),
    (("text\ttext\ttext\tlabel", "a\tb\tc\t0"), "my.tsv:1: 3 columns are called 'text'"),
    (("sentence1\tsentence2\tlabel", "a\tb\t1", "a\t\t0"), "my.tsv:3: the column 'sentence2' is empty"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_FILES)
def test_what_is_wrong_with_a_file(rows: tuple[str, ...], message: str, tmp_path: Path) -> None:
    name = table(tmp_path / "my.tsv", *rows)
    with pytest.raises(UserError, match=message):
        load_labelled(name, "all")


BAD_LINES = [
    ('{"sentence": "a", "label": 1}\n{"sentence": "b"}', "my.jsonl:2: no column 'label'"),
    ('{"sentence": "a", "label": 1}\n{"sentence": null, "label": 1}', "my.jsonl:2: the column 'sentence' is missing"),
    (
        '{"sentence": "a", "label": 1}\n{"sentence": "b", "label": NaN}',
        "my.jsonl:2: the label is nan, which is no label",
    ),
    ('{"sentence": "a", "label": 1e400}', "my.jsonl:1: the label is inf, which is no label"),
    ('{"sentence": "a", "label": true}', "my.jsonl:1: the column 'label' holds bool"),
    ('{"sentence": ["a"], "label": "x"}', "my.jsonl:1: the column 'sentence' holds list"),
    ('{"sentence": "a", "label": "x"', "my.jsonl:1: not valid JSON"),
    ('["a", "x"]', "my.jsonl:1: a JSON list, not an object"),
]


@pytest.mark.parametrize(("text", "message"), BAD_LINES)
def test_what_is_wrong_with_a_line(text: str, message: str, tmp_path: Path) -> None:
    name = table(tmp_path / "my.jsonl", text)
    with pytest.raises(UserError, match=message):
        load_labelled(name, "all")


def test_scores_that_are_no_numbers(tmp_path: Path) -> None:
    name = table(tmp_path / "my.tsv", "sentence\tscore", "a\t1", "b\thigh")
    with pytest.raises(UserError, match=r"my\.tsv:3: the score 'high' is not a number"):
        load_graded(name, "all")


def test_names_of_files_that_make_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "mine.tsv", HEAD, "a\t1")
    with pytest.raises(UserError, match=r"mine\.tvs"):
        task_named("mine.tvs")
    with pytest.raises(UserError, match=r"mina\.tsv does not exist .did you mean 'mine\.tsv'"):
        task_named("mina.tsv")
    table(tmp_path / "mine.csv", "sentence,label", "a,1")
    with pytest.raises(UserError, match=r"mine\.csv cannot be a task: give a TSV"):
        task_named("mine.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"folder is no task: it has no train\.tsv"):
        task_named("folder")
    table(tmp_path / "folder" / "train.tsv", HEAD, "a\t1")
    jsonl(tmp_path / "folder" / "train.jsonl", {"sentence": "a", "label": "1"})
    with pytest.raises(UserError, match=r"has train\.tsv and train\.jsonl"):
        task_named("folder")
    with pytest.raises(UserError, match=r"unknown task 'sstt2' .did you mean 'sst2'.*FILE\.tsv"):
        task_named("sstt2")
