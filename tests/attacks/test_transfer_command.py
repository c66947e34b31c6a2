"""`holdfast transfer`: adversarial texts tried on other models, and models compared on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_attacks import ATTACK, mistake

from holdfast.cli import main
from holdfast.results import new_result, read_result, write_result


def test_labels_are_the_same_classes_in_another_model(here: Path) -> None:
    """The same function with its classes in another order is deceived by the same texts."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(here / "model")
    names = [model.config.id2label[i] for i in (2, 0, 1)]
    with torch.no_grad():
        model.classifier.weight.copy_(model.classifier.weight[[2, 0, 1]].clone())
        model.classifier.bias.copy_(model.classifier.bias[[2, 0, 1]].clone())
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
    model.save_pretrained(here / "turned")
    AutoTokenizer.from_pretrained(here / "model").save_pretrained(here / "turned")
    assert main([*ATTACK, "--output", "a.json"]) == 0
    assert main(["transfer", "a.json", "--models", "model,turned", "--output", "t.json"]) == 0
    same, turned = read_result(here / "t.json")["results"]
    assert same["n"] == turned["n"] > 0
    assert same["metrics"] == turned["metrics"]
    assert same["metrics"]["success_rate"] == same["metrics"]["success_rate_high"] == 100.0


def test_texts_that_deceive_another_model(here: Path, make_classifier: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "other").symlink_to(make_classifier(seed=9))
    assert main([*ATTACK, "--output", "a.json"]) == 0
    assert main([ATTACK[0], "other", *ATTACK[2:], "--output", "b.json"]) == 0
    capsys.readouterr()
    assert main(["transfer", "a.json", "b.json", "--output", "t.json"]) == 0
    rows = {(row["made_against"], row["on"]): row for row in read_result(here / "t.json")["results"]}
    assert set(rows) == {(a, b) for a in ("model", "other") for b in ("model", "other")}
    assert rows["model", "model"]["metrics"]["success_rate"] == 100.0
    crossed = rows["model", "other"]["metrics"]
    assert 0.0 <= crossed["success_rate_low"] <= crossed["success_rate"] < crossed["success_rate_high"] <= 100.0
    succeeded = [e for e in read_result(here / "a.json")["examples"] if e["outcome"] == "succeeded"]
    assert rows["model", "model"]["texts"] == len(succeeded)
    assert rows["model", "model"]["n"] == len({e["original"] for e in succeeded}) < len(succeeded)
    cross = rows["model", "other"]
    assert 0 < cross["texts"] < len(succeeded)
    assert 0 < cross["n"] < rows["model", "model"]["n"]
    assert 0.0 <= cross["metrics"]["success_rate"] < 100.0


def test_texts_of_one_original_are_one_item(
    here: Path, make_classifier: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The texts of a recipe, listed again under another name, tell nothing new."""
    (here / "other").symlink_to(make_classifier(seed=9))
    assert main([*ATTACK, "--output", "a.json"]) == 0
    made = read_result(here / "a.json")
    once = [row for row in made["examples"] if row["recipe"] == "pwws"]
    for name, examples in (("once", once), ("twice", [*once, *({**row, "recipe": "typos"} for row in once)])):
        write_result(here / f"{name}.json", {**made, "examples": examples})
        for model in ("model", "other"):
            assert main(["transfer", f"{name}.json", "--models", model, "--output", f"{name}-{model}.json"]) == 0
    rows = [read_result(here / f"{name}-other.json")["results"][0] for name in ("once", "twice")]
    assert rows[1]["texts"] == 2 * rows[0]["texts"]
    assert rows[0]["n"] == rows[1]["n"] > 5
    assert rows[0]["metrics"] == rows[1]["metrics"]
    found = [compared(capsys, f"{name}-model.json", f"{name}-other.json") for name in ("once", "twice")]
    assert found[0]["n"] == found[1]["n"]
    assert found[0]["metrics"]["p"] == pytest.approx(found[1]["metrics"]["p"])
    assert found[0]["metrics"]["difference"] == pytest.approx(found[1]["metrics"]["difference"])


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["compare", *words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    return dict(row)


def test_models_are_compared_on_the_texts_that_were_tried_on_both(
    here: Path, make_classifier: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "other").symlink_to(make_classifier(seed=9))
    assert main([*ATTACK, "--output", "a.json"]) == 0
    for model in ("model", "other"):
        assert main(["transfer", "a.json", "--models", model, "--output", f"on-{model}.json"]) == 0
    row = compared(capsys, "on-model.json", "on-other.json")
    own, other = (by_text(read_result(here / f"on-{model}.json")["results"][0]) for model in ("model", "other"))
    assert 0 < row["n"] == len(other) < len(own), "the other model has some original wrong"
    assert row["metrics"]["baseline"] == 100.0 > row["metrics"]["other"]
    assert row["metrics"]["other"] == pytest.approx(100 * sum(other.values()) / len(other))
    assert (row["recipe"], row["metric"]) == ("pwws, typos against model", "success_rate")
    for model in ("model", "other"):
        words = ["--models", model, "--recipe", "pwws", "--output", f"pwws-{model}.json"]
        assert main(["transfer", "a.json", *words]) == 0
    assert compared(capsys, "pwws-model.json", "pwws-other.json")["test"] == "mcnemar"


def test_models_are_looked_up_before_any_text_is_tried(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ATTACK, "--output", "a.json"]) == 0
    monkeypatch.setattr("holdfast.attacks.transfer.load_classifier", lambda *_, **__: pytest.fail("it was loaded"))
    assert "no-such/model" in mistake(capsys, ["transfer", "a.json", "--models", "model,./no-such/model"])
    assert mistake(capsys, ["transfer", "a.json", "--models", ","]).endswith("--models names no classifier")


def by_text(row: dict[str, Any]) -> dict[int, float]:
    """The share of each original's texts that deceive."""
    items = row["items"]
    shares = {text: 1 - correct for text, correct in zip(items["text"], items["correct"], strict=True)}
    assert len(shares) == row["n"] < row["texts"]
    assert row["metrics"]["success_rate"] == pytest.approx(100 * sum(shares.values()) / row["n"])
    return shares


def tried(name: str, deceived: dict[int, bool], *, on: str = "", made_against: str = "a", **changed: Any) -> str:
    """A result of `holdfast transfer` with a row of these texts."""
    row = {
        "task": "sst2",
        "split": "dev",
        "n": len(deceived),
        "recipe": "pwws",
        "made_against": made_against,
        "made_in": "a.json",
        "on": on or name,
        "metrics": {"success_rate": 50.0},
        "items": {"text": list(deceived), "correct": [int(not each) for each in deceived.values()]},
        "items_sha256": "of these texts",
    }
    identity = {"model_sha256": f"hash of {name}", "model_files": {}}
    result = new_result("transfer", command=["holdfast"], model=name, identity=identity, protocol={}, seed=None)
    write_result(Path(name), result | {"results": [row | changed]})
    return name


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_seeds_of_a_model_are_compared_on_the_same_texts(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = dict.fromkeys(range(12), False)
    first = [tried(f"a-{i}.json", held | {i: True}) for i in (0, 1)]
    second = [tried(f"b-{i}.json", dict.fromkeys(held, True)) for i in (0, 1)]
    row = compared(capsys, ",".join(first), ",".join(second))
    assert (row["n"], row["seeds"]) == (12, [2, 2])
    assert row["metrics"]["baseline"] == pytest.approx(100 / 12)
    assert row["metrics"]["other"] == 100.0


def test_what_cannot_be_compared_of_tried_texts_is_one_line(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {3: True, 5: False}
    a, b = tried("a.json", texts), tried("b.json", texts)
    result = read_result(there / "b.json")
    crossed = {**result, "results": [*result["results"], {**result["results"][0], "on": "a.json"}]}
    write_result(there / "crossed.json", crossed)
    message = mistake(capsys, ["compare", a, "crossed.json"])
    assert "crossed.json: texts were tried on several models" in message
    write_result(there / "twice.json", {**result, "results": result["results"] * 2})
    assert "twice.json holds sst2 dev pwws against a twice" in mistake(capsys, ["compare", a, "twice.json"])
    bare = {key: value for key, value in result["results"][0].items() if key != "items"}
    write_result(there / "bare.json", {**result, "results": [bare]})
    assert "bare.json does not record which texts deceived" in mistake(capsys, ["compare", a, "bare.json"])
    other = tried("other.json", {4: True})
    assert "no text was tried on all models" in mistake(capsys, ["compare", a, other])
    theirs = tried("theirs.json", texts, made_against="c")
    assert "no task in common" in mistake(capsys, ["compare", b, theirs])
    earlier = tried("earlier.json", texts, recipe="pwws, typos")
    assert "counts texts of one original by several recipes" in mistake(capsys, ["compare", earlier, earlier])
    made_anew = tried("made-anew.json", texts, items_sha256="of other texts")
    assert "come from another attack than in b.json" in mistake(capsys, ["compare", b, made_anew])
