"""A run from an encoder to a classifier: it learns, selects by dev alone, resumes bit-exactly, and is a plain model."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from classifier_rows import rows, write
from safetensors.torch import load_file, save_file

from holdfast.attacks.classifier import load_classifier, tokenise
from holdfast.classifiers import FinetuneSettings, finetune, scores
from holdfast.classifiers.batches import Collate, LengthOrder
from holdfast.classifiers.initial_model import new_classifier
from holdfast.classifiers.labelled_texts import Part
from holdfast.classifiers.scores import score_row
from holdfast.classifiers.training_data import load_training_data
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.models import load_sentence_transformer
from holdfast.precision import Precision
from holdfast.results import read_result
from warm import WarmPython

DIE = Path(__file__).with_name("die.py")
Settings = Callable[..., FinetuneSettings]


def test_a_task_is_learnt_and_the_model_is_a_plain_classifier(settings: Settings, data: Path, tmp_path: Path) -> None:
    from transformers import pipeline

    write(data / "sst2" / "train.tsv", rows(640, 0))
    write(data / "sst2" / "dev.tsv", rows(100, 1))
    result = finetune(settings(epochs=6.0), command=["test"])
    dev, test = result["results"]
    assert (dev["split"], dev["n"], test["split"], test["n"]) == ("dev", 100, "test", 60)
    assert dev["metrics"]["accuracy"] > 90
    assert test["metrics"]["accuracy"] > 90
    assert result == read_result(tmp_path / "out" / "results.json")
    assert result["kind"] == "finetune"
    assert result["selected"]["steps"] == 240

    classify = pipeline("text-classification", str(tmp_path / "out"), device="cpu")
    texts = [text for text, _ in rows(60, 2)]
    labels = load_classifier(str(tmp_path / "out"), device="cpu").logits([(text,) for text in texts]).argmax(axis=1)
    assert [answer["label"] for answer in classify(texts)] == [str(label) for label in labels]
    assert test["metrics"]["accuracy"] == pytest.approx(100 * np.mean(labels == [number % 2 for number in range(60)]))
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {
        *("README.md", "config.json", "metrics.jsonl", "model.safetensors"),
        *("results.json", "run.json", "tokenizer.json", "tokenizer_config.json"),
    }


def test_pairs_are_learnt_with_f1(settings: Settings, tmp_path: Path) -> None:
    result = finetune(settings(task="mrpc", epochs=10.0, output=tmp_path / "pairs.json"))
    dev, test = result["results"]
    assert test["metrics"]["accuracy"] > 90
    assert test["metrics"]["f1"] > 90
    assert dev["split"] == "held-out"
    assert dev["n"] == 48
    assert result == read_result(tmp_path / "pairs.json")
    assert result["model"] == str(tmp_path / "pairs")
    classifier = load_classifier(str(tmp_path / "pairs"), device="cpu")
    assert classifier.takes_pairs is True
    assert classifier.logits([("the man runs", "a dog"), ("the man runs", "a cat")]).argmax(axis=1).tolist() == [1, 0]
    with pytest.raises(UserError, match="takes pairs of texts"):
        classifier.logits([("a dog",)])


def test_the_best_epoch_on_dev_is_kept_and_the_test_split_is_not_asked(settings: Settings, data: Path) -> None:
    """Dev has its classes the wrong way round: the best epoch is the one that has learnt least."""
    write(data / "sst2" / "dev.tsv", rows(40, 1, flipped=True))
    result = finetune(settings())
    lines = [json.loads(line) for line in (settings().folder / "metrics.jsonl").read_text().splitlines()]
    scores = {line["step"]: line["eval_accuracy"] for line in lines if "eval_accuracy" in line}
    assert list(scores) == [15, 30, 45]
    assert result["selected"]["step"] == max(scores, key=lambda step: (scores[step], -step)) == 15
    assert result["results"][0]["metrics"]["accuracy"] == pytest.approx(scores[15])
    assert scores[15] > scores[45]
    assert result["results"][1]["metrics"]["accuracy"] < 90, "another epoch was exported than was selected"


def test_what_the_test_split_holds_changes_nothing(settings: Settings, data: Path, tmp_path: Path) -> None:
    finetune(settings(max_steps=20))
    write(data / "sst2" / "test.tsv", [(f"red red red {text}", label) for text, label in rows(60, 2, flipped=True)])
    finetune(settings(max_steps=20, output=tmp_path / "again"))
    weights = [sha256(tmp_path / name / "model.safetensors") for name in ("out", "again")]
    assert weights[0] == weights[1]


def test_a_sentence_transformer_starts_from_its_transformer(
    settings: Settings, tiny: Path, data: Path, tmp_path: Path
) -> None:
    encoder = load_sentence_transformer(str(tiny), device="cpu")
    encoder.save_pretrained(str(tmp_path / "encoder"), create_model_card=False)
    # The top of the folder in one release of sentence-transformers, a folder of its own in another.
    modules = json.loads((tmp_path / "encoder" / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "encoder" / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "encoder" / "0_Transformer").mkdir()
    for path in list((tmp_path / "encoder").iterdir()):
        if path.is_file() and not path.name.startswith(("modules", "config_sentence")):
            path.replace(tmp_path / "encoder" / "0_Transformer" / path.name)
    material = load_training_data("sst2", train_split=None, examples=None, seed=0, data=data)
    torch.manual_seed(0)
    start = new_classifier(str(tmp_path / "encoder"), material, 128)
    model, new = start.model, start.new_weights
    before = encoder.transformers_model.state_dict()
    for name, value in model.base_model.state_dict().items():
        assert "pooler" in name or torch.equal(value, before[name]), name
    assert new == [
        *("bert.pooler.dense.bias", "bert.pooler.dense.weight"),
        *("classifier.bias", "classifier.weight"),
    ]


def test_hidden_states_that_an_encoder_is_pooled_over_are_not_carried_along(
    tiny: Path, data: Path, tmp_path: Path
) -> None:
    material = load_training_data("sst2", train_split=None, examples=None, seed=0, data=data)
    folder = tmp_path / "encoder"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "output_hidden_states": True}))
    start = new_classifier(str(folder), material, 128)
    model, tokenizer = start.model, start.tokenizer
    assert model(**tokenizer("a dog", return_tensors="pt")).hidden_states is None


def test_a_pooler_of_zeros_is_drawn_anew(tiny: Path, data: Path, tmp_path: Path) -> None:
    """Encoders that were never given a pooler are saved with zeros for it, and zeros let no gradient through."""
    encoder = load_sentence_transformer(str(tiny), device="cpu")
    encoder.save_pretrained(str(tmp_path / "encoder"), create_model_card=False)
    saved = load_file(tmp_path / "encoder" / "model.safetensors")
    (name,) = (name for name in saved if name.endswith("pooler.dense.weight"))
    assert not saved[name].any()
    material = load_training_data("sst2", train_split=None, examples=None, seed=0, data=data)
    start = new_classifier(str(tmp_path / "encoder"), material, 128)
    model, new = start.model, start.new_weights
    assert model.bert.pooler.dense.weight.std() > 0.1  # the tiny model's initializer_range is 0.5
    assert "bert.pooler.dense.weight" in new
    saved[name][0, 0] = 1.0  # a pooler that has something in it stays as it is
    save_file(saved, tmp_path / "encoder" / "model.safetensors", metadata={"format": "pt"})
    start = new_classifier(str(tmp_path / "encoder"), material, 128)
    model, new = start.model, start.new_weights
    assert model.bert.pooler.dense.weight.sum() == 1
    assert new == ["classifier.bias", "classifier.weight"]


def test_the_finished_model_reads_as_much_of_a_text_as_in_training(settings: Settings) -> None:
    finetune(settings(max_length=6, max_steps=2))
    classifier = load_classifier(str(settings().folder), device="cpu")
    assert classifier.max_tokens == 6
    encoded = tokenise(classifier.tokenizer, [("the old dog runs in the park",)], classifier.max_tokens)
    assert len(encoded["input_ids"][0]) == 6
    logits = classifier.logits([("the old dog runs",), ("the old dog runs in the park",), ("the old dog",)])
    assert np.array_equal(logits[0], logits[1])
    assert not np.array_equal(logits[0], logits[2])


def test_batches_hold_texts_of_like_length_and_every_text_once_an_epoch() -> None:
    draw = np.random.default_rng(0)
    lengths = draw.integers(3, 60, size=1003).tolist()
    order = LengthOrder(lengths, 16, seed=1)
    first = list(order)
    assert sorted(first) == list(range(1003))
    assert list(order) == first
    order.epoch = 1
    assert list(order) != first
    order = LengthOrder(lengths, 16, seed=2)
    assert list(order) != first

    def padded(rows: list[int]) -> int:
        batches = [rows[i : i + 16] for i in range(0, len(rows), 16)]
        return sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)

    assert padded(first) < 1.15 * sum(lengths)  # 1.8 times as much in no order
    heads = [lengths[first[i]] for i in range(0, 1003, 16)]
    assert abs(np.corrcoef(heads, np.arange(len(heads)))[0, 1]) < 0.5, "batches must not come sorted by length"


def test_each_epoch_has_an_order_of_its_own(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    collate = Collate.__call__
    monkeypatch.setattr(Collate, "__call__", lambda self, rows: seen.extend(rows) or collate(self, rows))
    texts = finetune(settings(epochs=2.0))["protocol"]["data"]["train"]["texts"]
    first, second = seen[:texts], seen[texts:]
    assert sorted(first) == sorted(second) == list(range(texts))
    assert first != second


@pytest.mark.slow
def test_killed_runs_end_in_the_same_bits(tiny: Path, data: Path, tmp_path: Path, warm: WarmPython) -> None:
    unbroken, output = tmp_path / "unbroken", tmp_path / "killed"
    finished = warm.run(DIE, str(tiny), str(data), str(unbroken), "never")
    assert finished.returncode == 0, finished.stderr
    # In epoch 2 with a checkpoint not sealed; an epoch's evaluation done and its checkpoint not begun.
    for point in ("saving-24", "best-30"):
        killed = warm.run(DIE, str(tiny), str(data), str(output), point)
        assert killed.returncode == -9, killed.stderr
        assert not (output / "config.json").exists(), "a killed run must not look finished"
    resumed = warm.run(DIE, str(tiny), str(data), str(output), "never")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "checkpoint-37/model.safetensors", "checkpoint-37/optimizer.pt"):
        assert sha256(output / name) == sha256(unbroken / name), name
    selected = [json.loads((folder / "results.json").read_text())["selected"] for folder in (unbroken, output)]
    assert selected[0] == selected[1]
    steps = [json.loads(line)["step"] for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


def test_a_run_resumed_from_a_checkpoint_ends_in_the_same_bits(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.classifiers.classifier_trainer import ClassifierTrainer

    finetune(settings(output=tmp_path / "unbroken"))
    step = ClassifierTrainer.training_step

    def breaks(self: ClassifierTrainer, *args: object, **kwargs: object) -> torch.Tensor:
        if self.state.global_step == 25:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(ClassifierTrainer, "training_step", breaks)
        with pytest.raises(KeyboardInterrupt):
            finetune(settings(save_steps=10))
    with pytest.raises(UserError, match=r"learning_rate was 0\.005 and is now 0\.001"):
        finetune(settings(save_steps=10, learning_rate=1e-3), resume=True)
    with pytest.raises(UserError, match="--resume"):
        finetune(settings(save_steps=10))
    resumed = finetune(settings(save_steps=10), resume=True)
    hashes = [sha256(tmp_path / name / "model.safetensors") for name in ("unbroken", "out")]
    assert hashes[0] == hashes[1]
    assert (tmp_path / "out" / "checkpoint-40").is_dir(), "checkpoints that were asked for stay"
    assert finetune(settings(save_steps=10), resume=True) == resumed  # there is nothing left to do
    assert finetune(settings(), resume=True) == resumed
    assert (tmp_path / "out" / "checkpoint-40").is_dir(), "they are not removed by a later call without --save-steps"
    (tmp_path / "texts.json").write_text("{}")
    with pytest.raises(UserError, match=r"cannot resume .*: files adversarial_texts was"):
        finetune(settings(save_steps=10, adversarial_texts=str(tmp_path / "texts.json")), resume=True)
    other: Precision = "fp32" if resumed["protocol"]["training"]["precision"] == "bf16" else "bf16"
    with pytest.raises(UserError, match="training precision was"):
        finetune(settings(save_steps=10, precision=other), resume=True)


def test_a_result_beside_an_unfinished_model_does_not_finish_it(settings: Settings, tmp_path: Path) -> None:
    run = settings(output=tmp_path / "r.json", max_steps=2)
    first = finetune(run)
    (tmp_path / "r" / "config.json").unlink()
    again = finetune(run, resume=True)
    assert (tmp_path / "r" / "config.json").exists()
    assert again["model_sha256"] == first["model_sha256"]


def test_a_loss_that_is_not_finite_leaves_nothing_before_the_first_checkpoint(settings: Settings) -> None:
    with pytest.raises(UserError, match="at step 2; no checkpoint was written yet; try a lower --learning-rate"):
        finetune(settings(learning_rate=1e20))
    assert not settings().folder.exists()


def test_a_prompt_model_is_refused_in_one_line(settings: Settings, tiny: Path, tmp_path: Path) -> None:
    prompted = load_sentence_transformer(str(tiny), pooling="prompt", device="cpu")
    prompted.save_pretrained(str(tmp_path / "prompted"), create_model_card=False)
    with pytest.raises(UserError, match="prompt model"):
        finetune(settings(model=str(tmp_path / "prompted")))
    assert not settings().folder.exists()


def test_a_classifier_is_measured_on_a_sample(settings: Settings, tmp_path: Path) -> None:
    short = {"epochs": 1.0, "examples": 32}
    whole = finetune(settings(**short, output=tmp_path / "whole"))
    cut = finetune(settings(**short, test_examples=10, output=tmp_path / "cut"))
    again = finetune(settings(**short, test_examples=10, output=tmp_path / "again"))
    tests = {row["split"]: row for row in cut["results"] if row["split"].startswith("test")}
    assert tests
    for row in whole["results"]:
        assert "sample" not in row
        if row["split"] not in tests:  # what selects stays whole
            assert next(other for other in cut["results"] if other["split"] == row["split"]) == row
            continue
        own = tests[row["split"]]
        assert own["n"] == 10 < row["n"]
        assert own["sample"] == {"of": row["n"]}
        assert own["items_sha256"] != row["items_sha256"]
        chosen = sorted(random.Random(42).sample(range(row["n"]), 10))
        assert own["items"]["correct"] == [row["items"]["correct"][number] for number in chosen]
        assert f"10 of {row['n']:,}" in cut["protocol"]["notes"][-1]
    assert [row["metrics"] for row in again["results"]] == [row["metrics"] for row in cut["results"]]
    named = [[row["items_sha256"] for row in result["results"]] for result in (whole, cut, again)]
    assert named[1] == named[2]
    other = finetune(settings(**short, test_examples=10, seed=7, output=tmp_path / "other"))
    for row, same in zip(other["results"], cut["results"], strict=True):
        assert (row["items_sha256"] == same["items_sha256"]) == ("sample" not in row)


def test_the_seed_decides_head_order_and_what_is_held_out(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: dict[int, list[int]] = {}
    heads, held_out = [], []
    collate = Collate.__call__
    for seed in (1, 2):
        order = orders.setdefault(seed, [])
        monkeypatch.setattr(
            Collate, "__call__", lambda self, rows, order=order: order.extend(rows) or collate(self, rows)
        )
        finetune(settings(seed=seed, max_steps=1, learning_rate=1e-12, output=tmp_path / f"out{seed}"))
        heads.append(load_file(tmp_path / f"out{seed}" / "model.safetensors")["classifier.weight"])
        monkeypatch.setattr(Collate, "__call__", collate)
        result = finetune(settings(task="mr", seed=seed, max_steps=1, output=tmp_path / f"mr{seed}"))
        held_out.append(result["results"][0]["items_sha256"])
    assert (heads[0] - heads[1]).abs().max() > 1e-3
    assert orders[1] != orders[2]
    assert held_out[0] != held_out[1]


def test_training_cuts_texts_and_the_learning_rate_falls_linearly_to_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths = []
    collate = Collate.__call__

    def watched(self: Collate, rows: list[int]) -> dict[str, torch.Tensor]:
        batch = collate(self, rows)
        widths.append(batch["input_ids"].shape[1])
        return batch

    monkeypatch.setattr(Collate, "__call__", watched)
    finetune(settings(max_steps=5, max_length=6))
    assert max(widths) == 6, "there are texts of ten tokens"
    records = [json.loads(line) for line in (settings().folder / "metrics.jsonl").read_text().splitlines()]
    rates = [record["learning_rate"] for record in records if "learning_rate" in record]
    assert rates == pytest.approx([5e-3, 4e-3, 3e-3, 2e-3, 1e-3])


def test_f1_is_that_of_the_second_class() -> None:
    part = Part("test", [(str(n),) for n in range(6)], [1, 1, 1, 0, 0, 0], "", "")
    predicted = np.eye(2, dtype=np.float32)[[1, 1, 0, 1, 1, 0]]
    classifier: Any = SimpleNamespace(logits=lambda texts, **_: predicted)
    metrics = score_row(classifier, "mrpc", part)["metrics"]
    assert metrics == {"accuracy": pytest.approx(50.0), "f1": pytest.approx(100 * 4 / 7)}
    assert "f1" not in score_row(classifier, "sst2", part)["metrics"]


@pytest.mark.parametrize(("classes", "metrics"), [(2, ["accuracy", "f1"]), (3, ["accuracy"])])
def test_a_folder_named_as_a_task_with_f1_may_have_three_classes(classes: int, metrics: list[str]) -> None:
    part: Any = SimpleNamespace(labels=list(range(classes)))
    found, _ = scores._of_classes(np.eye(classes), part, "mrpc")
    assert found == dict.fromkeys(metrics, 100.0)
