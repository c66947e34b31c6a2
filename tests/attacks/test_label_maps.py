"""Attacks on models whose classes have other names, or another order, than the task's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from small_attacks import ATTACK, mistake, write

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.examples import Example
from holdfast.attacks.gradient_classifier import classification_layer
from holdfast.attacks.targets import CallableTarget, ClassifierTarget
from holdfast.cli import main
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.results import read_result

NAMES = ("entailment", "neutral", "contradiction")


def renamed(folder: Path, copy: Path, names: dict[int, str]) -> str:
    """Copy a classifier and give its classes other names."""
    shutil.copytree(folder, copy)
    path = copy / "config.json"
    config = json.loads(path.read_text())
    config["id2label"], config["label2id"] = names, {name: number for number, name in names.items()}
    path.write_text(json.dumps(config))
    return copy.name


@pytest.fixture
def reviews(here: Path, make_classifier: Callable[..., Path]) -> str:
    """The folder has a classifier that calls every text its class 0, and a task of which 7 texts of 8 are "pos"."""
    from transformers import AutoModelForSequenceClassification

    shutil.copytree(make_classifier(classes=2), here / "always")
    model = AutoModelForSequenceClassification.from_pretrained(here / "always")
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([5.0, -5.0]))
    model.save_pretrained(here / "always")
    write(here / "reviews.tsv", ["sentence", "label"], [("the dog runs", "pos")] * 7 + [("a cat", "neg")])
    return "reviews.tsv"


def on(model: str, task: str, *words: str) -> list[str]:
    return ["attack", model, "--task", task, "--recipes", "typos", "--resources", "light", *words]


def test_a_model_whose_first_class_is_positive(here: Path, reviews: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = renamed(here / "always", here / "m", {0: "POSITIVE", 1: "NEGATIVE"})
    assert main(on(model, reviews, "--output", "r.json")) == 0
    assert "classes matched by name: neg=NEGATIVE, pos=POSITIVE\n" in capsys.readouterr().err
    result = read_result(here / "r.json")
    assert result["results"][0]["metrics"]["accuracy"] == 87.5
    assert result["protocol"]["class_match"] == {
        "by": "name",
        "matched": {"neg": ["NEGATIVE"], "pos": ["POSITIVE"]},
        "numbers": {"neg": 1, "pos": 0},
    }
    assert result["protocol"]["classes"] == ["POSITIVE", "NEGATIVE"]


def test_default_names_need_a_map_where_the_task_has_names(
    here: Path, reviews: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = renamed(here / "always", here / "m", {0: "LABEL_0", 1: "LABEL_1"})
    line = mistake(capsys, on(model, reviews, "--output", "r.json"))
    assert "the classes of m have no names (LABEL_0, LABEL_1), and reviews.tsv has neg, pos" in line
    assert "for example --label-map LABEL_0=neg,LABEL_1=pos" in line
    assert not list(here.glob("r.*"))
    for given, accuracy in (("LABEL_0=neg,LABEL_1=pos", 12.5), ("LABEL_1=neg,LABEL_0=pos", 87.5)):
        assert main(on(model, reviews, "--label-map", given, "--output", "r.json")) == 0
        assert "classes matched by label map: neg=LABEL_" in capsys.readouterr().err
        result = read_result(here / "r.json")
        assert result["results"][0]["metrics"]["accuracy"] == accuracy
        assert result["protocol"]["class_match"]["by"] == "label map"
    settings = AttackSettings(model, ["typos"], task=reviews, label_map={"LABEL_1": "neg", "LABEL_0": "pos"})
    assert attack(settings)["results"][0]["metrics"]["accuracy"] == 87.5
    assert "--label-map takes MODEL=TASK" in mistake(capsys, on(model, reviews, "--label-map", "neg"))
    (here / "mine.txt").write_text("the dog runs\na cat sits\n")
    drift = ["attack", "model", "--texts", "mine.txt", "--recipes", "typos", "--label-map", "a=b"]
    assert "--label-map is for --goal class, and this is --goal drift" in mistake(capsys, drift)


def test_default_names_are_numbers_where_the_task_has_numbers(
    here: Path, reviews: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = renamed(here / "always", here / "m", {0: "LABEL_0", 1: "LABEL_1"})
    write(here / "ones.tsv", ["sentence", "label"], [("the dog runs", "1"), ("a cat sits", "1")])
    assert main(on(model, "ones.tsv", "--output", "r.json")) == 0
    assert "classes matched by number: 1=LABEL_1 (in no class of the task: LABEL_0)" in capsys.readouterr().err
    # Class 1 is not the first class of the model, though it is the first that occurs.
    assert read_result(here / "r.json")["results"][0]["metrics"]["accuracy"] == 0.0


def test_classes_that_a_file_numbers_from_one_are_not_those_that_a_model_numbers_from_zero(
    here: Path, reviews: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "ones.tsv", ["sentence", "label"], [("the dog runs", "1"), ("a cat sits", "2")])
    assert "has the classes 0, 1, ones.tsv has 1, 2" in mistake(capsys, on("always", "ones.tsv"))


def test_several_classes_of_a_model_may_be_one_of_the_task(
    here: Path, classifier_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    classifier = load_classifier(str(classifier_folder), device="cpu")
    texts = [("the dog runs", "a cat sits"), ("a man eats", "the man eats"), ("a dog", "the red house")]
    says = [classifier.classes[row.argmax()] for row in classifier.logits(texts)]
    rows = [(*text, name if name == "entailment" else "not_entailment") for text, name in zip(texts, says, strict=True)]
    rows += [("the dog", "the dog", "entailment"), ("the dog", "a cat", "not_entailment")]
    write(here / "rte.tsv", ["sentence1", "sentence2", "label"], rows)
    line = mistake(capsys, on("model", "rte.tsv"))
    given = "entailment=entailment,neutral=not_entailment,contradiction=not_entailment"
    assert f"--label-map {given}" in line
    assert main(on("model", "rte.tsv", "--label-map", given, "--output", "r.json")) == 0
    result = read_result(here / "r.json")
    assert result["protocol"]["classes"] == ["entailment", "not_entailment"]
    assert result["protocol"]["class_match"]["matched"]["not_entailment"] == ["neutral", "contradiction"]
    for row in result["examples"]:
        logits = classifier.logits([(row["other"], row["original"])])[0].astype(np.float64)
        p = np.exp(logits) / np.exp(logits).sum()
        right = p[0] if row["label"] == 0 else p[1] + p[2]
        assert row["before"]["value"] == pytest.approx(right, abs=1e-5)
        assert row["before"]["correct"] == (right > 0.5)
    assert (
        main(["transfer", "r.json", "--output", "t.json"]) == 0
    )  # the same model, by the map that it was attacked with
    (tried,) = read_result(here / "t.json")["results"]
    deceived = sum(row["outcome"] == "succeeded" for row in result["examples"])
    assert (tried["n"], tried["class_match"]) == (deceived, result["protocol"]["class_match"])
    assert deceived == 0 or tried["metrics"]["success_rate"] == 100.0


def test_gradients_are_those_of_the_sum_of_the_classes(classifier_folder: Path) -> None:
    classifier = load_classifier(str(classifier_folder), device="cpu")
    target = ClassifierTarget(classifier, groups=((0,), (1, 2)))
    text, example = "the dog runs", Example(0, ("the dog runs",), 0, 1)
    (slope,) = target.gradients([(example, Words.of(text))])
    ((z, output),) = target.vectors([(example, text)])
    layer = classification_layer(classifier.model, 3, "m")
    with torch.no_grad():
        p = torch.softmax(layer(z), dim=0)
    within = torch.tensor([0.0, 1.0, 1.0]) * p / (p[1] + p[2])
    torch.testing.assert_close(slope.direction, (p - within) @ layer.weight, rtol=1e-4, atol=1e-6)
    assert np.exp(output[1] - np.logaddexp(*output)) == pytest.approx(float(p[1] + p[2]), abs=1e-6)
    assert target.prepare([Example(0, (text,), 0, 2)]) == ["its label 2 is none of the model's 2 classes"]


def test_columns_of_a_function(here: Path, reviews: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "columns.py").write_text(
        "def two(texts):\n    return [[0.3, 0.7]] * len(texts)\n"
        "def three(texts):\n    return [[0.3, 0.3, 0.4]] * len(texts)\n"
    )
    assert main(on("call:columns:two", reviews, "--output", "r.json")) == 0
    assert "classes matched by order: neg=0, pos=1" in capsys.readouterr().err
    assert read_result(here / "r.json")["results"][0]["metrics"]["accuracy"] == 87.5
    line = mistake(capsys, on("call:columns:three", reviews))
    assert "call:columns:three returns 3 numbers per text, and reviews.tsv has neg, pos" in line
    assert main(on("call:columns:three", reviews, "--label-map", "0=neg,1=neg,2=pos", "--output", "r.json")) == 0
    assert read_result(here / "r.json")["results"][0]["metrics"]["accuracy"] == 12.5
    first = read_result(here / "r.json")["examples"][0]["before"]
    assert first["value"] == pytest.approx(0.4)
    write(here / "good.tsv", ["sentence", "label"], [("the dog runs", "pos")])
    assert "returns 2 numbers per text, and good.tsv has pos" in mistake(capsys, on("call:columns:two", "good.tsv"))
    grouped = CallableTarget(lambda texts: [[0.3, 0.3, 0.4]] * len(texts), name="f", groups=((0, 1), (2,)))
    np.testing.assert_allclose(np.exp(grouped.outputs([("a",)], exact=True)[0]), [0.6, 0.4])


def test_texts_tried_on_models_with_other_names(
    here: Path, classifier_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed(classifier_folder, here / "generic", dict(enumerate(["LABEL_0", "LABEL_1", "LABEL_2"])))
    renamed(classifier_folder, here / "loud", dict(enumerate(name.upper() for name in NAMES)))
    given = ",".join(f"LABEL_{number}={name}" for number, name in enumerate(NAMES))
    assert main([*ATTACK, "--output", "a.json"]) == 0
    assert main(["attack", "generic", *ATTACK[2:], "--label-map", given, "--output", "b.json"]) == 0
    capsys.readouterr()
    assert main(["transfer", "a.json", "b.json", "--models", "model,generic,loud", "--output", "t.json"]) == 0
    assert "classes matched by label map: entailment=LABEL_0" in capsys.readouterr().err
    rows = read_result(here / "t.json")["results"]
    assert len(rows) == 6
    assert {row["n"] for row in rows} == {rows[0]["n"]} != {0}
    assert {row["metrics"]["success_rate"] for row in rows} == {100.0}
    assert [row["class_match"]["by"] for row in rows] == ["name", "name", *["label map"] * 2, "name", "name"]
    line = mistake(capsys, ["transfer", "a.json", "--models", "generic"])
    assert "the classes of generic have no names" in line
    assert main(["transfer", "a.json", "--models", "model,generic", "--label-map", given, "--output", "u.json"]) == 0
    assert [row["class_match"]["by"] for row in read_result(here / "u.json")["results"]] == ["name", "label map"]
    line = mistake(capsys, ["transfer", "a.json", "--models", "model,loud", "--label-map", given])
    assert "--label-map: no classifier of model, loud has all the classes LABEL_0, LABEL_1, LABEL_2" in line


def test_classes_that_are_not_numbered_from_zero_are_one_line(
    here: Path, classifier_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed(classifier_folder, here / "odd", {1: "entailment", 2: "neutral", 3: "contradiction"})
    line = mistake(capsys, ["attack", "odd", *ATTACK[2:]])
    assert "odd: id2label in config.json must number the classes from 0 on, and it has 1, 2, 3" in line


def test_what_a_configuration_says_of_holdfast_may_be_nonsense(here: Path, classifier_folder: Path) -> None:
    renamed(classifier_folder, here / "odd", dict(enumerate(NAMES)))
    path = here / "odd" / "config.json"
    for said in ({"takes_pairs": "yes", "task": ["sst2"]}, ["pairs"]):
        path.write_text(json.dumps({**json.loads(path.read_text()), "holdfast": said}))
        classifier = load_classifier(str(here / "odd"), device="cpu")
        assert classifier.takes_pairs is None
        assert classifier.logits([("the dog runs",)]).shape == (1, 3)


def test_a_cross_encoder_of_several_classes_is_a_classifier(tmp_path: Path, classifier_folder: Path) -> None:
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(classifier_folder), device="cpu").save(str(tmp_path / "cross"))
    assert (tmp_path / "cross" / "modules.json").is_file()
    texts = [("the dog runs", "a cat sits")]
    ours, theirs = (load_classifier(str(path), device="cpu") for path in (classifier_folder, tmp_path / "cross"))
    assert theirs.classes == ours.classes
    np.testing.assert_allclose(theirs.logits(texts), ours.logits(texts), atol=1e-5)


def test_labels_that_stand_for_none(here: Path, reviews: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "hidden.tsv", ["sentence", "label"], [("the dog runs", "-1"), ("a cat sits", "-1")])
    line = mistake(capsys, on("always", "hidden.tsv"))
    assert "hidden.tsv:2: every label of hidden.tsv is -1" in line
    (here / "columns.py").write_text("def three(texts):\n    return [[0.3, 0.3, 0.4]] * len(texts)\n")
    write(here / "some.tsv", ["sentence", "label"], [("the dog", "-1"), ("a cat", "0"), ("a man", "1"), ("a fox", "1")])
    given = "0=-1,1=0,2=1"
    assert main(on("call:columns:three", "some.tsv", "--label-map", given, "--output", "r.json")) == 0
    note = "some.tsv: 1 rows are of the class -1; if this stands for no label, remove these rows"
    assert note in capsys.readouterr().err.replace("\n", " ")
    assert read_result(here / "r.json")["protocol"]["notes"] == [note]


@pytest.mark.parametrize(
    ("scores", "line"),
    [
        (("4.0", "5.5", "1"), "own.tsv:3: the score 5.5 is off the scale of 0 to 5"),
        (("4.0", "-1", "1"), "own.tsv:3: the score -1 is off the scale of 0 to 5"),
        (("4.0", "nan", "1"), "own.tsv:3: the score 'nan' is not a number"),
        (
            ("0.9", "0.25", "1"),
            "all 3 scores lie between 0 and 1, and the scale of own.tsv ends at 5: multiply them by 5",
        ),
    ],
)
def test_scores_off_the_scale_are_one_line(
    here: Path, corpus: list[str], scores: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"the dog runs {n}", "a cat sits", score) for n, score in enumerate(scores)]
    write(here / "own.tsv", ["sentence1", "sentence2", "score"], rows)
    assert line in mistake(capsys, on("encoder", "own.tsv"))


def test_an_unknown_name_in_a_map_from_python(here: Path, reviews: str) -> None:
    with pytest.raises(UserError, match=r"'pos' is no class of the model always, which has 0, 1"):
        attack(AttackSettings("always", ["typos"], task=reviews, label_map={"pos": "pos", "neg": "neg"}))
