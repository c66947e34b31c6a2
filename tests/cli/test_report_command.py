"""`holdfast report` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.results import new_result, write_result


def write(name: str, kind: str, rows: list[dict[str, Any]], **more: Any) -> str:
    identity = {"model_sha256": "hash", "model_files": {}}
    made = new_result(kind, command=["holdfast"], model="a", identity=identity, protocol={}, seed=None, results=rows)
    write_result(Path(name), made | more)
    return name


def evaluated(name: str) -> str:
    rows = [{"task": "stsb", "split": "test", "n": 1379, "metrics": {"spearman": 70.0}}]
    return write(name, "evaluate", [*rows, {"task": "mr", "split": "all", "n": 90, "metrics": {"accuracy": 80.0}}])


def attacked(name: str) -> str:
    metrics = {"success_rate": 50.0, "queries": 30.0, "accuracy": 80.0, "accuracy_under_attack": 40.0}
    rows = [{"task": "mr", "split": "all", "n": 4, "metrics": metrics, "recipe": "pwws"}]
    texts = {"original": "a fish", "adversarial": "a Pisces", "changed": [[1, "fish", "Pisces"]]}
    scores = {"queries": 30, "before": {"value": 0.9}, "after": {"value": 0.2}}
    attempt = {"recipe": "pwws", "outcome": "succeeded", **texts, **scores}
    return write(name, "attack", rows, examples=[{"number": number, **attempt} for number in range(4)])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_of_two_results(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [evaluated("e.json"), attacked("t.json")]
    assert main(["report", *words, "--output", "pages/r.html", "--title", "Mine"]) == 0
    message = capsys.readouterr().out
    assert "pages/r.html" in message
    assert "3 tables, 2 figures, 4 examples" in message
    assert "<h1><bdi>Mine</bdi></h1>" in (here / "pages" / "r.html").read_text(encoding="utf-8")


def test_json_says_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    word = attacked("t.json")
    assert main(["report", word, "--examples", "3", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["output"] == "report.html"
    assert made["bytes"] == Path("report.html").stat().st_size
    assert (made["results"], made["examples"], made["examples_there"]) == (1, 3, 4)
    assert made["tables"] == ["attack-results"]
    assert made["figures"] == ["success-1", "queries-1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.json"], "nowhere.json"),
        (["text.json"], "text.json:1: not JSON"),
        (["other.json"], "schema"),
        (["e.json", "e.json"], "given twice"),
        (["e.json", "--output", "r.json"], ".html"),
        ([], "RESULT"),
    ],
)
def test_a_mistake_is_one_line_and_no_page(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    evaluated("e.json")
    Path("text.json").write_text("no JSON", encoding="utf-8")
    Path("other.json").write_text('{"a": 1}', encoding="utf-8")
    assert main(["report", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(here.glob("*.html"))
    assert not list(here.glob("*.part"))
