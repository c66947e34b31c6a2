"""Fine-tuning that starts from a classifier: its head is kept if its classes are the task's, else drawn anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from classifier_rows import write
from safetensors.torch import load_file, save_file

from holdfast.attacks.classifier import load_classifier
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.initial_model import InitialModel, new_classifier
from holdfast.classifiers.training_data import TrainingData, load_training_data
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.results import read_result

Settings = Callable[..., FinetuneSettings]
Make = Callable[..., Path]
LAST = ["classifier.bias", "classifier.weight"]


@pytest.fixture
def make(tiny: Path, tmp_path: Path) -> Make:
    """``make("a", "b")``: the folder of a random classifier of these classes."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def made(*names: str) -> Path:
        torch.manual_seed(1)
        numbered = dict(enumerate(names))
        model = AutoModelForSequenceClassification.from_pretrained(
            tiny, id2label=numbered, label2id={name: number for number, name in numbered.items()}
        )
        torch.nn.init.normal_(model.classifier.bias)
        folder = tmp_path / "-".join(["from", *names])
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
        return folder

    return made


@pytest.fixture
def task(data: Path) -> Callable[..., TrainingData]:
    """``task("a", "b")``: a task of these classes."""

    def made(*names: str) -> TrainingData:
        path = data / "mine.tsv"
        write(path, [(f"a dog {n}", names[n % len(names)]) for n in range(20 * len(names))])
        return load_training_data(str(path), train_split=None, examples=None, seed=0, data=data)

    return made


def start(model: Path, material: TrainingData) -> InitialModel:
    torch.manual_seed(7)
    return new_classifier(str(model), material, 16)


def same(model: Any, folder: Path, but: Sequence[str] = ()) -> bool:
    """Return True if all weights are those of a folder, except some that all differ."""
    saved, state = load_file(folder / "model.safetensors"), model.state_dict()
    assert saved.keys() == state.keys()
    differ = {
        name for name in saved if saved[name].shape != state[name].shape or not torch.equal(saved[name], state[name])
    }
    return differ == set(but)


@pytest.mark.parametrize(
    ("classes", "of_task", "message"),
    [
        (("a", "b"), ("a", "b", "c"), "has 2 classes, mine.tsv has 3 classes"),
        (("LABEL_0",), ("a", "b"), "has one output, mine.tsv has 2 classes"),
        (("a", "b"), ("a", "c"), "has the classes a, b, mine.tsv has a, c: the names do not match"),
        (("LABEL_0", "LABEL_1"), ("a", "b"), "has the classes LABEL_0, LABEL_1, mine.tsv has a, b"),
    ],
)
def test_a_head_of_other_classes_is_drawn_anew(
    classes: tuple[str, ...], of_task: tuple[str, ...], message: str, make: Make, task: Callable[..., TrainingData]
) -> None:
    folder, material = make(*classes), task(*of_task)
    started = start(folder, material)
    assert started.new_weights == LAST
    assert same(started.model, folder, but=LAST)
    assert started.head is not None
    assert not started.head.kept
    assert message in started.head.describe()
    assert started.model.classifier.weight.shape[0] == len(of_task)
    assert 0.3 < float(started.model.classifier.weight.detach().std()) < 0.7  # its initializer_range is 0.5
    assert started.model.config.id2label == dict(enumerate(of_task))
    again = start(folder, material)
    assert torch.equal(started.model.classifier.weight, again.model.classifier.weight), "drawn by the seed"


@pytest.mark.parametrize(
    ("classes", "of_task", "order", "by"),
    [
        (("a", "b", "c"), ("a", "b", "c"), [0, 1, 2], "name"),
        (("c", "a", "b"), ("a", "b", "c"), [1, 2, 0], "name"),
        (("POSITIVE", "NEGATIVE"), ("neg", "pos"), [1, 0], "name"),
        (("LABEL_0", "LABEL_1"), ("0", "1"), [0, 1], "number"),
    ],
)
def test_a_head_of_the_same_classes_is_kept_in_the_order_of_the_task(
    classes: tuple[str, ...],
    of_task: tuple[str, ...],
    order: list[int],
    by: str,
    make: Make,
    task: Callable[..., TrainingData],
) -> None:
    folder = make(*classes)
    started = start(folder, task(*of_task))
    saved = load_file(folder / "model.safetensors")
    torch.testing.assert_close(started.model.classifier.weight.data, saved["classifier.weight"][order], rtol=0, atol=0)
    torch.testing.assert_close(started.model.classifier.bias.data, saved["classifier.bias"][order], rtol=0, atol=0)
    assert same(started.model, folder, but=[] if order == sorted(order) else LAST)
    assert started.new_weights == []
    assert started.head is not None
    assert started.head.record()["kept"] is True
    assert started.head.record()["class_match"]["by"] == by


def test_a_head_of_other_names_is_kept_by_a_label_map(
    make: Make, task: Callable[..., TrainingData], data: Path, tiny: Path, tmp_path: Path
) -> None:
    folder, material = make("LABEL_0", "LABEL_1"), task("a", "b")
    label_map = {"LABEL_0": "b", "LABEL_1": "a"}
    started = new_classifier(str(folder), material, 16, label_map=label_map)
    saved = load_file(folder / "model.safetensors")
    torch.testing.assert_close(started.model.classifier.weight.data, saved["classifier.weight"][[1, 0]])
    assert started.head is not None
    assert started.head.record()["class_match"]["by"] == "label map"
    written = finetune(
        FinetuneSettings(str(folder), str(data / "mine.tsv"), tmp_path / "mapped", label_map=label_map, max_steps=1)
    )
    assert written["protocol"]["label_map"] == label_map
    assert written["protocol"]["head"]["class_match"]["matched"] == {"a": ["LABEL_1"], "b": ["LABEL_0"]}
    for model, names, message in (
        (tiny, ("a", "b"), "has no head: leave it out"),
        (folder, ("a", "b", "c"), "has 2 classes, mine.tsv has 3 classes, so its head cannot be kept"),
        (folder, ("a", "c"), "'b' is no class of the task mine.tsv"),
    ):
        with pytest.raises(UserError, match=f"--label-map.*{message}"):
            new_classifier(str(model), task(*names), 16, label_map=label_map)
    with pytest.raises(UserError, match="leave out --label-map"):
        FinetuneSettings("m", "sst2", tmp_path / "x", frozen=True, label_map=label_map).check()


def test_an_encoder_has_no_head_to_speak_of(tiny: Path, task: Callable[..., TrainingData]) -> None:
    started = start(tiny, task("a", "b"))
    assert started.head is None
    assert started.new_weights == ["bert.pooler.dense.bias", "bert.pooler.dense.weight", *LAST]


def test_a_score_is_learnt_from_one_output_and_not_from_classes(make: Make, data: Path) -> None:
    lines = "".join(f"a dog {n}\t{n % 5}.5\n" for n in range(60))
    (data / "scores.tsv").write_text("sentence\tscore\n" + lines)
    material = load_training_data(str(data / "scores.tsv"), train_split=None, examples=None, seed=0, data=data)
    folder = make("LABEL_0")
    kept, drawn = start(folder, material), start(make("a", "b"), material)
    assert same(kept.model, folder)
    assert (kept.new_weights, drawn.new_weights) == ([], LAST)
    assert kept.head is not None
    assert drawn.head is not None
    assert (kept.head.kept, drawn.head.kept) == (True, False)
    assert drawn.head.describe().endswith("has 2 classes, scores.tsv has scores, one output")


def test_a_cross_encoder_gets_a_new_head(make: Make, task: Callable[..., TrainingData], tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(make("LABEL_0")), device="cpu").save(str(tmp_path / "cross"))
    started = start(tmp_path / "cross", task("a", "b"))
    assert started.new_weights == LAST
    assert same(started.model, tmp_path / "cross", but=LAST)


def test_a_body_that_config_json_does_not_describe_is_refused(make: Make, task: Callable[..., TrainingData]) -> None:
    folder, material = make("a", "b"), task("a", "b", "c")
    path, name = folder / "model.safetensors", "bert.encoder.layer.0.output.dense.weight"
    saved = load_file(path)
    save_file({**saved, name: saved[name][:-1].clone()}, path, metadata={"format": "pt"})
    rows_, columns = saved[name].shape
    line = rf"{name} has the shape {rows_ - 1} x {columns}, which should be {rows_} x {columns}"
    with pytest.raises(UserError, match=f"the weights do not match config.json: {line}"):
        start(folder, material)
    save_file({key: value for key, value in saved.items() if key != name}, path, metadata={"format": "pt"})
    with pytest.raises(UserError, match=f"the weights do not match config.json: {name} is missing"):
        start(folder, material)


def test_what_became_of_the_head_is_told_and_recorded(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    make("a", "b").rename("m")
    write(tmp_path / "three.tsv", [(f"word {n}", "abc"[n % 3]) for n in range(60)])
    given = ["--task", "three.tsv", "--max-steps", "1", "--batch-size", "8"]
    assert main(["finetune", "m", *given, "--output", "f"]) == 0
    assert "a new head is drawn: m has 2 classes, three.tsv has 3 classes\n" in capsys.readouterr().err
    protocol = read_result(tmp_path / "f" / "results.json")["protocol"]
    assert protocol["new_weights"] == LAST
    assert protocol["head"] == {"kept": False, "reason": "m has 2 classes, three.tsv has 3 classes"}
    assert main(["finetune", "f", *given, "--output", "g"]) == 0
    assert "the head is kept: classes matched by name: a, b, c\n" in capsys.readouterr().err
    protocol = read_result(tmp_path / "g" / "results.json")["protocol"]
    assert protocol["new_weights"] == []
    assert protocol["head"]["class_match"]["matched"] == {"a": ["a"], "b": ["b"], "c": ["c"]}


def test_a_classifier_on_a_frozen_encoder_gives_its_encoder(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = finetune(settings(frozen=True, output=tmp_path / "frozen"))
    second = finetune(settings(frozen=True, model=str(tmp_path / "frozen"), output=tmp_path / "again"))
    # The same encoder, not a regression on the logits of the first.
    assert [row["items"] for row in first["results"]] == [row["items"] for row in second["results"]]
    assert len(json.loads((tmp_path / "again" / "modules.json").read_text())) == 3
    trained = finetune(settings(model=str(tmp_path / "frozen"), max_steps=1, epochs=None, output=tmp_path / "trained"))
    assert trained["protocol"]["head"]["kept"] is False
    assert "is a classifier on a frozen encoder" in trained["protocol"]["head"]["reason"]
    assert set(LAST) <= set(trained["protocol"]["new_weights"])


def test_a_split_that_lacks_a_class_and_labels_that_stand_for_none_are_noted(data: Path) -> None:
    folder = data / "mine"
    labels = ("0", "1", "-1")
    write(folder / "train.tsv", [(f"word {n}", labels[n % 3]) for n in range(60)])
    write(folder / "dev.tsv", [(f"text {n}", labels[n % 2]) for n in range(10)])
    material = load_training_data(str(folder), train_split=None, examples=None, seed=0, data=data)
    assert material.notes == (
        "mine dev has no text of the class -1",
        f"{folder / 'train.tsv'}: 20 rows are of the class -1; if this stands for no label, remove these rows",
    )
    write(folder / "test.tsv", [(f"test {n}", "-1") for n in range(10)])
    with pytest.raises(UserError, match=r"test\.tsv:2: every label of .*test\.tsv is -1"):
        load_training_data(str(folder), train_split=None, examples=None, seed=0, data=data)


def test_the_class_score_is_a_class(data: Path) -> None:
    write(data / "mine.tsv", [(f"word {n}", "score") for n in range(60)])
    with pytest.raises(UserError, match="the only class is 'score'"):
        load_training_data(str(data / "mine.tsv"), train_split=None, examples=None, seed=0, data=data)


def test_a_classifier_says_which_task_its_numbers_are_of(settings: Settings, tmp_path: Path) -> None:
    finetune(settings(max_steps=1, epochs=None))
    classifier = load_classifier(str(tmp_path / "out"), device="cpu")
    assert classifier.class_names.meanings == ("negative", "positive")
    assert classifier.classes == ["0", "1"]
