"""The script that tunes the learning rate: equal budgets, a line per run, nothing made twice, killed runs resumed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserError
from holdfast.training import training_run


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("tune_learning_rate")


@pytest.fixture
def words(tiny: Path, corpus: Path, labelled: Path, tmp_path: Path) -> list[str]:
    given = ["--model", str(tiny), "--corpus", str(corpus), "--data", str(labelled), "--output", str(tmp_path / "out")]
    return [*given, "--sentences", "32", "--batch-size", "8", "--precision", "fp32"]


def test_each_rate_of_each_method_is_a_line_and_none_is_made_twice(
    script: Any, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words += ["--methods", "simcse,adcse", "--rates", "1e-3,1e-2", "--set", "adcse:negatives=5"]
    script.main([*words, "--limit", "1"])
    path = tmp_path / "out" / "runs.jsonl"
    first = path.read_text(encoding="utf-8")
    assert len(first.splitlines()) == 1
    path.write_text(first + '{"method": "simcse", "learn', encoding="utf-8")  # a kill inside a write
    script.main(words)
    records = script.read(path)
    assert records[0] == json.loads(first)
    found = [(record["method"], record["learning_rate"]) for record in records]
    assert found == [("simcse", 1e-3), ("simcse", 1e-2), ("adcse", 1e-3), ("adcse", 1e-2)]
    for record in records:
        assert (record["steps"], record["batch_size"], [step for step, _ in record["curve"]]) == (4, 8, [1, 2, 3, 4])
        assert record["dev"] == pytest.approx(max(score for _, score in record["curve"]), abs=0.01)
        assert record["options"] == ({"negatives": "5"} if record["method"] == "adcse" else {})
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["runs.jsonl"]
    before = path.read_bytes()
    capsys.readouterr()
    script.main(words)
    assert path.read_bytes() == before
    assert capsys.readouterr().out == script.table(records, (1e-3, 1e-2)) + "\n"


def test_a_killed_run_goes_on(script: Any, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words += ["--methods", "simcse", "--rates", "1e-3"]
    finish = training_run._finish
    monkeypatch.setattr(training_run, "_finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        script.main(words)
    kept = sorted(path.name for path in (tmp_path / "out" / "simcse-0.001-1").glob("checkpoint-*"))
    assert kept[-1] == "checkpoint-4"
    assert script.read(tmp_path / "out" / "runs.jsonl") == []
    monkeypatch.setattr(training_run, "_finish", finish)
    steps: list[int] = []
    step = training_run.HoldfastTrainer.training_step
    monkeypatch.setattr(training_run.HoldfastTrainer, "training_step", lambda *given: steps.append(1) or step(*given))
    script.main(words)
    assert steps == [], "all steps were in the checkpoint"
    assert len(script.read(tmp_path / "out" / "runs.jsonl")) == 1


def test_a_rate_that_the_training_does_not_survive_is_a_line_and_other_errors_are_not(
    script: Any, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words += ["--methods", "simcse", "--rates", "1e-3,1e20"]
    script.main(words)
    records = script.read(tmp_path / "out" / "runs.jsonl")
    assert (records[1]["dev"], records[1]["learning_rate"]) == (None, 1e20)
    assert "not finite" in records[1]["failed"]
    assert script.table(records, (1e-3, 1e20)).splitlines()[-1].endswith("| - | 0.001, the end of the grid |")

    def failing(*_: Any, **__: Any) -> Any:
        raise UserError("no such corpus")

    monkeypatch.setattr(training_run, "train", failing)
    with pytest.raises(UserError, match="no such corpus"):
        script.main([*words, "--seeds", "2"])
    assert script.read(tmp_path / "out" / "runs.jsonl") == records


def test_the_table_has_means_and_says_where_the_grid_ends(script: Any) -> None:
    def record(method: str, rate: float, dev: float | None, seed: int = 1) -> dict[str, Any]:
        return {"method": method, "learning_rate": rate, "dev": dev, "seed": seed, "steps": 4, "batch_size": 8}

    records = [record("a", 1e-5, 70.0), record("a", 3e-5, 72.0), record("a", 1e-4, 71.0)]
    records += [record("b", 1e-5, 70.0), record("b", 3e-5, 71.0), record("b", 3e-5, 73.0, 2), record("b", 1e-4, None)]
    lines = script.table(records, (1e-5, 3e-5, 1e-4)).splitlines()
    assert lines[0] == "| method | steps × batch | 1e-05 | 3e-05 | 0.0001 | best |"
    assert lines[2] == "| a | 4 × 8 | 70.00 | **72.00** | 71.00 | 3e-05 |"
    assert lines[3] == "| b | 4 × 8 | 70.00 | **72.00 ± 1.41** | - | 3e-05 |"
    assert script.table(records[:2], (1e-5, 3e-5)).endswith("| 3e-05, the end of the grid |")
