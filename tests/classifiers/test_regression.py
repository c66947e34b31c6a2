"""Scores in place of classes: one output, squared error, selection by rank correlation, a plain regression model."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from classifier_rows import OTHERS
from scipy.stats import pearsonr, spearmanr

from holdfast.attacks.classifier import load_classifier
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.classifier_trainer import ClassifierTrainer
from holdfast.classifiers.scores import pearson, spearman
from holdfast.errors import UserError
from holdfast.results import read_result

Settings = Callable[..., FinetuneSettings]


def write_pairs(folder: Path, *, flipped: str = "") -> None:
    """Pairs whose score, 0 to 5, is five times the share of dogs among the animals of the second text."""
    for seed, (split, count) in enumerate({"train": 400, "dev": 60, "test": 60}.items()):
        draw = random.Random(seed)
        lines = ["sentence1\tsentence2\tscore\n"]
        for _ in range(count):
            animals = draw.choices(("cat", "dog"), k=5)
            score = animals.count("dog")
            score = 5 - score if split == flipped else score
            lines.append(f"{' '.join(draw.choices(OTHERS, k=2))}\t{' '.join(animals)}\t{score}.0\n")
        (folder / "stsb").mkdir(exist_ok=True)
        (folder / "stsb" / f"{split}.tsv").write_text("".join(lines))


def test_scores_are_learnt_and_the_model_is_a_plain_regression(settings: Settings, data: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    write_pairs(data)
    result = finetune(settings(task="stsb", epochs=8.0), command=["test"])
    dev, test = result["results"]
    assert (dev["split"], dev["n"], test["split"], test["n"]) == ("dev", 60, "test", 60)
    assert test["metrics"]["spearman"] > 80
    assert set(test["metrics"]) == {"spearman", "pearson"}
    items = test["items"]
    assert test["metrics"]["spearman"] == pytest.approx(100 * spearmanr(items["prediction"], items["gold"])[0])
    assert test["metrics"]["pearson"] == pytest.approx(100 * pearsonr(items["prediction"], items["gold"])[0])
    assert np.mean(np.subtract(items["prediction"], items["gold"]) ** 2) < np.var(items["gold"])
    assert result == read_result(tmp_path / "out" / "results.json")
    assert "best spearman on stsb dev" in result["selected"]["protocol"]
    assert result["selected"]["score"] == pytest.approx(dev["metrics"]["spearman"], abs=1e-3)
    assert result["protocol"]["regression"] is True

    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["problem_type"] == "regression"
    assert config["id2label"] == {"0": "score"}
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    lines = [line.split("\t") for line in (data / "stsb" / "test.tsv").read_text().splitlines()[1:6]]
    with torch.no_grad():
        logits = [model(**tokenizer(a, b, return_tensors="pt")).logits.item() for a, b, _ in lines]
    assert items["gold"][:5] == [float(score) for *_, score in lines]
    assert items["prediction"][:5] == pytest.approx(logits, abs=1e-4)
    message = pipeline("text-classification", str(tmp_path / "out"), device="cpu")
    answer = message({"text": lines[0][0], "text_pair": lines[0][1]})
    assert (answer[0] if isinstance(answer, list) else answer)["score"] == pytest.approx(logits[0], abs=1e-4)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "as a regression of stsb" in card
    assert f"spearman {test['metrics']['spearman']:.2f}" in card


def test_the_best_correlation_on_dev_is_kept(settings: Settings, data: Path) -> None:
    write_pairs(data, flipped="dev")
    result = finetune(settings(task="stsb", epochs=4.0))
    lines = [json.loads(line) for line in (settings().folder / "metrics.jsonl").read_text().splitlines()]
    scores = {line["step"]: line["eval_spearman"] for line in lines if "eval_spearman" in line}
    assert len(scores) == 4
    assert result["selected"]["step"] == max(scores, key=lambda step: (scores[step], -step))
    assert scores[result["selected"]["step"]] > min(scores.values())


def test_batches_carry_scores_as_floats(settings: Settings, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.classifiers.batches import Collate

    seen: list[torch.Tensor] = []
    collate = Collate.__call__

    def spy(self: Collate, rows: list[int]) -> dict[str, torch.Tensor]:
        batch = collate(self, rows)
        seen.append(batch["labels"])
        return batch

    monkeypatch.setattr(Collate, "__call__", spy)
    write_pairs(data)
    finetune(settings(task="stsb", max_steps=2))
    finetune(settings(max_steps=2, output=settings().folder.with_name("classes")))
    assert [labels.dtype for labels in seen[:2]] == [torch.float32] * 2
    assert seen[-1].dtype == torch.int64


def test_an_evaluation_gives_the_squared_error(settings: Settings, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pairs(data)
    evaluate = ClassifierTrainer.evaluate
    found: list[tuple[dict[str, float], float]] = []

    def spy(self: ClassifierTrainer, *args: object, **kwargs: object) -> dict[str, float]:
        metrics = evaluate(self, *args, **kwargs)
        model, tokenizer = self.model.eval(), self.processing_class
        with torch.no_grad():
            errors = [
                (model(**tokenizer(*text, return_tensors="pt").to(model.device)).logits.item() - score) ** 2
                for text, score in zip(self._dev.texts, self._dev.labels, strict=True)
            ]
        model.train()
        found.append((metrics, float(np.mean(errors))))
        return metrics

    monkeypatch.setattr(ClassifierTrainer, "evaluate", spy)
    finetune(settings(task="stsb", epochs=1.0))
    ((metrics, error),) = found
    assert metrics["eval_loss"] == pytest.approx(error, rel=1e-4)


def test_attacks_on_scores_are_refused_in_one_line(settings: Settings, data: Path, tmp_path: Path) -> None:
    from holdfast.attacks.attack_run import attack
    from holdfast.attacks.attack_settings import AttackSettings

    write_pairs(data)
    finetune(settings(task="stsb", max_steps=2))
    with pytest.raises(UserError, match="gives one number for a text, not classes, and attacks need classes"):
        attack(AttackSettings(str(tmp_path / "out"), ["typos"], task="sst2", data=data))
    scored = load_classifier(str(tmp_path / "out"), device="cpu", regression=True)
    assert scored.logits([("a", "dog"), ("a", "cat")]).shape == (2, 1)
    with pytest.raises(UserError, match="takes pairs of texts"):
        scored.logits([("a dog",)])


def test_single_texts_with_scores_of_ones_own(settings: Settings, tmp_path: Path) -> None:
    draw = random.Random(0)
    lines = [f"{' '.join(draw.choices(('cat', 'dog'), k=5))} {' '.join(draw.choices(OTHERS, k=3))}" for _ in range(200)]
    path = tmp_path / "mine.tsv"
    path.write_text("sentence\tscore\n" + "".join(f"{line}\t{line.count('dog') / 10 - 3}\n" for line in lines))
    result = finetune(settings(task=str(path), max_steps=5))
    assert [(row["task"], row["split"], row["n"]) for row in result["results"]] == [
        ("mine.tsv", "held-out", 20),
        ("mine.tsv", "held-out-test", 20),
    ]
    with pytest.raises(UserError, match=r"--frozen fits a logistic regression, and mine\.tsv has scores"):
        finetune(settings(task=str(path), frozen=True, output=tmp_path / "frozen"))
    assert not (tmp_path / "frozen").exists()


def test_correlations_of_equal_predictions_and_of_one_pair_are_0() -> None:
    assert spearman([1.0], [2.0]) == pearson([1.0], [2.0]) == 0.0
    assert spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == pearson([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == 0.0
    assert spearman([1.0, 2.0, 3.0], [1.0, 2.0, 9.0]) == 100.0
    assert spearman([3.0, 2.0, 1.0], [1.0, 2.0, 9.0]) == -100.0
    assert pearson([1.0, 2.0, 3.0], [1.0, 2.0, 9.0]) == pytest.approx(91.766, abs=1e-3)
