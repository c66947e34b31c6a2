"""The texts of tasks as a corpus: all splits, each text once, no labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.data.task_texts import STS, write_texts
from holdfast.errors import UserError
from holdfast.evaluation.sts import STS_TASKS


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for split in ("train", "dev", "test"):
        path = tmp_path / "data" / "stsb" / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"sentence1\tsentence2\tscore\nA cat.\tOnly in {split}.\t5\nA  cat.\tTwo.\t0\n")
    (tmp_path / "data" / "trec").mkdir()
    for split in ("train", "test"):
        (tmp_path / "data" / "trec" / f"{split}.tsv").write_text(f"sentence\tlabel\nWho {split}?\t3\nTwo.\t3\n")
    return tmp_path / "data"


def test_each_text_of_all_splits_is_a_line(data: Path, tmp_path: Path) -> None:
    assert write_texts(["stsb", "trec"], tmp_path / "texts.txt", data=data) == 7
    found = (tmp_path / "texts.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(found) == sorted(
        ["A cat.", "Two.", "Only in train.", "Only in dev.", "Only in test.", "Who train?", "Who test?"]
    )


def test_own_tasks_with_scores_have_texts_too(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text('{"text": "A dog.", "score": 1}\n{"text": "A cat.", "score": 2.5}\n')
    two.write_text('{"sentence1": "A dog.", "sentence2": "Two.", "score": 1}\n')
    assert write_texts([str(one), str(two)], tmp_path / "texts.txt") == 3
    assert (tmp_path / "texts.txt").read_text(encoding="utf-8") == "A dog.\nA cat.\nTwo.\n"


def test_a_missing_split_leaves_no_file(data: Path, tmp_path: Path) -> None:
    (data / "stsb" / "test.tsv").unlink()
    with pytest.raises(UserError, match="stsb"):
        write_texts(["trec", "stsb"], tmp_path / "texts.txt", data=data)
    assert not (tmp_path / "texts.txt").exists()
    with pytest.raises(UserError, match="sts12"):
        write_texts(["sts"], tmp_path / "texts.txt", data=data)


def test_sts_stands_for_the_tasks_of_the_evaluation() -> None:
    assert STS == STS_TASKS


def test_the_command_says_what_such_a_training_means(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "texts", "stsb", "--data", str(data), "--output", str(tmp_path / "texts.txt")]) == 0
    message = " ".join(capsys.readouterr().out.split())
    assert message.startswith("5 texts in")
    assert "is not one on unseen texts" in message
