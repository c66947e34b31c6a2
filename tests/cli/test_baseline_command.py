"""``holdfast baseline`` as a person or a script meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.baselines import BASELINES
from holdfast.cli import main
from holdfast.results import read_result


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").write_text("the 1 0\ncat 0 2\ncat 5 5\n")
    return tmp_path / "v.txt"


def test_the_help_names_every_baseline_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Example: holdfast baseline" in text
    assert "--json" in text
    for name, baseline in BASELINES.items():
        assert f"{name} {baseline.summary}" in text


def test_a_baseline_is_made_and_told(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "glove", "--vectors", "v.txt", "--output", "out"]) == 0
    message = capsys.readouterr()
    assert 'SentenceTransformer("out")' in message.out
    assert "1 lines were left out: duplicate words." in message.out
    assert "2 words, 2 numbers each" in message.err
    result = read_result(vectors.parent / "out" / "results.json")
    assert result["kind"] == "baseline"
    assert result["command"] == "holdfast baseline glove --vectors v.txt --output out"
    assert result["protocol"]["stop_words"] == "kept"


def test_with_json_there_is_one_document_and_nothing_else(vectors: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["baseline", "glove", "--vectors", "v.txt", "--output", "out", "--drop-stop-words", "--json"]
    assert main(words) == 0
    message = capsys.readouterr()
    assert message.err == ""
    assert json.loads(message.out) == read_result(vectors.parent / "out" / "results.json")
    assert json.loads(message.out)["protocol"]["stop_words"].startswith("left out")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["glvoe", "--output", "out"], "(did you mean 'glove'?)"),
        (["glove", "--vectors", "v.txt"], "missing: --output"),
        (["glove", "--output", "out"], "needs --vectors"),
        (["glove", "--output", "out", "--vectors", "w.txt"], "cannot read w.txt"),
        (["glove", "--output", "out", "--vectors", "v.txt", "--seed", "1"], "does not take --seed"),
        (["flow", "--output", "out", "--model", "m", "--corpus", "c", "--set", "levels"], "name=value"),
        (["mean", "--output", "out", "--model", "./nowhere"], "no such model folder: ./nowhere"),
    ],
)
def test_a_mistake_is_one_line(vectors: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", *words]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    assert said in message.err
    assert message.err.count("\n") == 1
    assert not (vectors.parent / "out").exists()
