"""Training on adversarial texts that were made before: which are taken, with what label, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from classifier_rows import rows, write

from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.adversarial_texts import read_adversarial_texts
from holdfast.classifiers.training_data import load_training_data
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.results import new_result, write_result

TEXTS = [("a dog runs",), ("a cat sleeps",), ("the dog eats",)]
PAIRS = [("a man sings", "a dog runs"), ("a woman", "a cat sleeps")]


def example(original: str, adversarial: str, outcome: str = "succeeded", **more: Any) -> dict[str, Any]:
    verdict = {"label": 1, "value": 0.9}
    return {
        "number": 0,
        "recipe": "typos",
        "outcome": outcome,
        "original": original,
        "adversarial": adversarial,
        "before": verdict,
        "after": verdict,
        "changed": [],
        "queries": 1,
        **more,
    }


def attacked(path: Path, *examples: dict[str, Any], kind: str = "attack") -> Path:
    identity = {"model_sha256": "0" * 64, "model_files": {}}
    result = new_result(kind, command=["holdfast"], model="m", identity=identity, protocol={}, seed=1)
    write_result(path, {**result, "examples": list(examples)})
    return path


def test_each_attacked_training_text_adds_what_became_of_it(tmp_path: Path) -> None:
    path = attacked(
        tmp_path / "a.json",
        example("the dog eats", "the dgo eats"),
        example("a dog runs", "a dog rnus", "failed"),
        example("a dog runs", "a dog rnus"),  # by another recipe
        example("a cat sleeps", "a cat sleeps", "failed"),
        example("a cat sleeps", "a cat slpees", "skipped"),
        example("a fish", "a fsih"),
    )
    found = read_adversarial_texts(path, TEXTS, [1, 0, 1])
    assert found.texts == [("the dgo eats",), ("a dog rnus",)]
    assert found.labels == [1, 1]
    assert found.foreign == 1
    twice = read_adversarial_texts(path, [*TEXTS, TEXTS[0]], [1, 0, 1, 0])  # "a dog runs" has both labels
    assert (twice.texts, twice.labels, twice.foreign) == ([("the dgo eats",)], [1], 3)
    assert f"2 adversarial texts of {path.name} (1 of texts that are not trained on" in found.describe()


def test_of_a_pair_the_attacked_side_is_exchanged(tmp_path: Path) -> None:
    path = attacked(
        tmp_path / "a.json",
        example("a dog runs", "a dgo runs", other="a man sings"),
        example("a woman", "a womna", other="a cat sleeps"),
        example("a dog runs", "a dgo runs", other="a woman"),  # another pair
    )
    found = read_adversarial_texts(path, PAIRS, [2, 0])
    assert found.texts == [("a man sings", "a dgo runs"), ("a womna", "a cat sleeps")]
    assert found.labels == [2, 0]
    assert found.foreign == 1


def test_what_is_no_attack_on_these_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a result of audit: adversarial texts come from `holdfast attack`"):
        read_adversarial_texts(attacked(tmp_path / "a.json", kind="audit"), TEXTS, [1, 0, 1])
    with pytest.raises(UserError, match=r"holds no adversarial text of a training text"):
        read_adversarial_texts(attacked(tmp_path / "b.json", example("a fish", "a fsih")), TEXTS, [1, 0, 1])
    bare = {name: value for name, value in json.loads((tmp_path / "b.json").read_text()).items() if name != "examples"}
    write_result(tmp_path / "c.json", bare)
    with pytest.raises(UserError, match="holds no examples"):
        read_adversarial_texts(tmp_path / "c.json", TEXTS, [1, 0, 1])


def test_they_join_the_training_part_alone_however_few_of_it_are_drawn(data: Path) -> None:
    def material(**more: Any) -> Any:
        return load_training_data("mr", train_split=None, seed=42, data=data, **{"examples": None, **more})

    plain = material()
    held_out, trained = plain.dev.texts[0][0], [text for (text,) in plain.train.texts[:3]]
    examples = [example(text, f"{text} x") for text in (held_out, *trained)]
    path = attacked(data.parent / "a.json", *examples)
    joined = material(adversarial_texts=[path])
    assert joined.train.texts == [*plain.train.texts, *((f"{text} x",) for text in trained)]
    assert list(joined.train.labels) == [*plain.train.labels, *plain.train.labels[:3]]
    assert (joined.dev, joined.tests) == (plain.dev, plain.tests)
    assert joined.adversarial[0].foreign == 1
    assert any("3 adversarial texts" in note for note in joined.notes)
    assert len(material(adversarial_texts=[path], examples=20).train) == 23


def test_none_of_them_is_a_text_that_selects_or_measures(data: Path) -> None:
    plain = load_training_data("mr", train_split=None, seed=42, examples=None, data=data)
    trained, (held_out,) = [text for (text,) in plain.train.texts[:2]], plain.dev.texts[0]
    path = attacked(data.parent / "a.json", example(trained[0], held_out), example(trained[1], f"{trained[1]} x"))
    joined = load_training_data("mr", train_split=None, seed=42, examples=None, data=data, adversarial_texts=[path])
    assert joined.train.texts == [*plain.train.texts, (f"{trained[1]} x",)]
    assert joined.adversarial[0].record()["measured_on"] == 1
    assert any("(1 that are measured on are left out)" in note for note in joined.notes)


def test_none_of_them_is_a_text_of_the_test_split(data: Path) -> None:
    given: dict[str, Any] = {"train_split": None, "seed": 42, "examples": None, "data": data}
    plain = load_training_data("sst2", **given)
    trained, (tested,) = [text for (text,) in plain.train.texts[:2]], plain.tests[0].texts[0]
    path = attacked(data.parent / "a.json", example(trained[0], tested), example(trained[1], f"{trained[1]} x"))
    joined = load_training_data("sst2", **given, adversarial_texts=[path])
    assert joined.train.texts == [*plain.train.texts, (f"{trained[1]} x",)]
    assert joined.adversarial[0].record()["measured_on"] == 1


def test_scores_have_no_adversarial_texts(data: Path) -> None:
    path = attacked(data.parent / "a.json", example("a dog runs", "a dgo runs"))
    lines = "".join(f"text {n}\tother {n}\t{n % 5}\n" for n in range(60))
    (data / "scored.tsv").write_text("sentence1\tsentence2\tscore\n" + lines)
    with pytest.raises(UserError, match=r"has scores: leave them out"):
        load_training_data(
            str(data / "scored.tsv"), train_split=None, examples=None, seed=1, data=data, adversarial_texts=[path]
        )


def test_from_a_classifier_to_one_trained_on_what_deceives_it(
    settings: Callable[..., FinetuneSettings], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    write(data / "sst2" / "train.tsv", rows(80, 0))
    finetune(settings(output=Path("clean")))
    words = ["attack", "clean", "--task", "sst2", "--split", "train", "--recipes", "typos", "--examples", "30"]
    assert main([*words, "--data", "data", "--output", "texts.json"]) == 0
    given = {"output": Path("hardened"), "adversarial_texts": "texts.json", "max_steps": 3, "epochs": None}
    result = finetune(settings(**given))
    (record,) = result["protocol"]["adversarial_texts"]
    assert record["source"] == "texts.json"
    assert record["texts"] > 10
    assert record["foreign"] == 0
    plain = json.loads(Path("clean/results.json").read_text())["protocol"]
    count = plain["data"]["train"]["texts"]
    assert result["protocol"]["data"]["train"]["texts"] == count + record["texts"]
    assert "adversarial_texts" not in plain
    assert any("adversarial texts of texts.json" in note for note in result["protocol"]["notes"])
