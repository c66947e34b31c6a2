"""From a task to its rows: every test split, an entry per text, and tasks of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from classifier_rows import rows, write

from holdfast.attacks.attack_inputs import load_attacked_model, load_inputs
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.cli import main
from holdfast.results import read_result

Settings = Callable[..., FinetuneSettings]
NAMES = ("entailment", "neutral", "contradiction")


def nli(count: int, seed: int, premise: str) -> list[tuple[str, ...]]:
    return [(f"{premise} {n}", text, NAMES[n % 3]) for n, (_, text, _) in enumerate(rows(count, seed, pairs=True))]


def test_every_test_split_gets_a_row_with_an_entry_per_text(settings: Settings, data: Path) -> None:
    for seed, (split, count) in enumerate({"train": 90, "dev": 30, "test": 24, "test_hard": 12}.items()):
        write(data / "snli" / f"{split}.tsv", nli(count, seed, split))
    result = finetune(settings(task="snli", max_steps=4))
    assert [(row["split"], row["n"]) for row in result["results"]] == [("dev", 30), ("test", 24), ("test_hard", 12)]
    assert set(result["protocol"]["data"]) == {"train", "dev", "test", "test_hard"}
    classifier = load_classifier(str(settings().folder), device="cpu")
    assert classifier.classes == list(NAMES)
    for row in result["results"]:
        correct = row["items"]["correct"]
        assert len(correct) == row["n"]
        assert set(correct) <= {0, 1}
        assert row["metrics"]["accuracy"] == pytest.approx(100 * np.mean(correct))
    made = nli(24, 2, "test")
    predicted = classifier.logits([(a, b) for a, b, _ in made]).argmax(axis=1)
    expected = [int(NAMES[label] == name) for label, (_, _, name) in zip(predicted, made, strict=True)]
    assert result["results"][1]["items"] == {"correct": expected}
    card = (settings().folder / "README.md").read_text()
    assert "| test_hard | 12 |" in card


def test_a_folder_of_ones_own_is_learnt_and_attacked(settings: Settings, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    for seed, (split, count) in enumerate({"train": 480, "dev": 40, "test": 60}.items()):
        write(folder / f"{split}.tsv", [(text, ("purrs", "barks")[int(label)]) for text, label in rows(count, seed)])
    result = finetune(settings(task=str(folder), epochs=5.0))
    assert result["protocol"]["task"] == "mine"
    assert result["protocol"]["classes"] == ["barks", "purrs"]
    dev, test = result["results"]
    assert (dev["task"], dev["split"], test["split"], test["n"]) == ("mine", "dev", "test", 60)
    assert test["metrics"]["accuracy"] > 90
    attacked = AttackSettings(str(settings().folder), task=str(folder), device="cpu")
    material = load_inputs(attacked)
    assert (material.split, len(material.examples), material.classes) == ("test", 60, ["barks", "purrs"])
    victim, numbered = load_attacked_model(attacked, material)
    outputs = victim.target.outputs([example.texts for example in numbered.examples], exact=True)
    right = [int(np.argmax(out)) == example.label for out, example in zip(outputs, numbered.examples, strict=True)]
    assert 100 * np.mean(right) == pytest.approx(test["metrics"]["accuracy"])


def test_a_file_of_ones_own_from_the_command_line(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    made = [*rows(100, 0), ("a red dog", "1"), ("a red dog", "0"), ("a red dog", "1")]
    write(tmp_path / "mine.tsv", made)
    given = ["finetune", str(tiny), "--task", "mine.tsv", "--output", "out", "--max-steps", "2"]
    assert main(given) == 0
    message = capsys.readouterr()
    assert "mine.tsv held-out-test" in message.err
    result = read_result(tmp_path / "out" / "results.json")
    assert [row["split"] for row in result["results"]] == ["held-out", "held-out-test"]
    assert result["protocol"]["excluded"][0]["because"] == "mine.tsv held-out-test"
    (tmp_path / "mine.tsv").write_text("sentence\tlabel\na\tb\n\tc\n")
    assert main([*given, "--output", "other"]) == 2
    assert "mine.tsv:3: the column 'sentence' is empty" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


REAL = [
    ("snli", "dev", ["held-out", "test", "test_hard"]),
    ("anli", "dev_all", ["held-out", "test_r1", "test_r2", "test_r3"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "split", "measured"), REAL)
def test_inference_on_the_real_files(task: str, split: str, measured: list[str], tiny: Path, tmp_path: Path) -> None:
    folder = os.environ.get("HOLDFAST_DATA")
    if not folder or not (Path(folder) / task).is_dir():
        pytest.skip(f"needs HOLDFAST_DATA with {task}")
    given = {"examples": 300, "max_steps": 3, "max_length": 48, "precision": "fp32", "data": Path(folder)}
    settings = FinetuneSettings(str(tiny), task, tmp_path / "out", train_split=split, **given)  # type: ignore[arg-type]
    result = finetune(settings)
    assert [row["split"] for row in result["results"]] == measured
    assert all(20 < row["metrics"]["accuracy"] < 60 for row in result["results"])
    assert result["protocol"]["data"]["train"]["texts"] == 300
    assert any("premises included" in out["because"] and out["from_train"] for out in result["protocol"]["excluded"])
