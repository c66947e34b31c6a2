"""`holdfast attack` and what reads its results, from the command line on small files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_attacks import ATTACK, mistake, write

from holdfast.attacks.journal import journals
from holdfast.attacks.recipe_choice import make_recipes
from holdfast.cli import main
from holdfast.option_parsing import split_settings
from holdfast.results import read_result


def test_an_attack_from_end_to_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTACK, "--output", "r.json"]) == 0
    message = capsys.readouterr().out
    assert "pwws" in message
    assert "1 skipped: the text is empty" in message
    result = read_result(here / "r.json")
    assert result["kind"] == "attack"
    assert result["model"] == "model"
    rows = {row["recipe"]: row for row in result["results"]}
    assert rows.keys() == {"pwws", "typos"}
    assert result["timing"]["recipes"].keys() == rows.keys()
    assert result["timing"]["attack_seconds"] == sum(each["seconds"] for each in result["timing"]["recipes"].values())
    assert result["timing"]["seconds_per_example"] == result["timing"]["attack_seconds"] / 80
    assert (rows["pwws"]["task"], rows["pwws"]["split"], rows["pwws"]["n"]) == ("textfooler/mnli", "all", 40)
    assert rows["pwws"]["metrics"]["succeeded"] > 0
    assert result["protocol"]["recipes"]["pwws"]["changed_from_published"] == {}
    assert "WordNet" in result["protocol"]["opened_resources"]["wordnet"]
    lines = [json.loads(line) for line in (here / "r.examples.jsonl").read_text().splitlines()]
    assert lines == result["examples"]
    assert len(lines) == 80
    assert not list(journals(here / "r.json"))
    # The labels are the model's: entailment is its class 0 whatever the task's order.
    example = next(e for e in result["examples"] if e["outcome"] == "succeeded")
    assert example["before"]["label"] == example["label"] != example["after"]["label"]

    capsys.readouterr()
    assert main(["show", "r.json", "--recipe", "pwws", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("pwws #") == 2
    _, old, new = example["changed"][0]
    assert f"[-{old}-]{{+{new}+}}" in shown
    assert main(["show", "r.json", "--outcome", "skipped", "--json"]) == 0
    assert all(row["outcome"] == "skipped" for row in json.loads(capsys.readouterr().out))


def test_an_attack_on_the_texts_of_the_training_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTACK, "--examples", "5", "--output", "r.json"]) == 0
    assert "learnt texts" not in capsys.readouterr().err
    own = read_result(here / "r.json")["protocol"]["data"]
    folder = shutil.copytree((here / "model").resolve(), here / "tuned")
    for split, said in (("all", True), ("train", False)):
        train = {"split": split, "sha256": own["sha256"]}
        (folder / "run.json").write_text(json.dumps({"data": {"train": train}}))
        assert main(["attack", "tuned", *ATTACK[2:], "--examples", "5", "--output", f"{split}.json"]) == 0
        assert ("tuned was trained on texts of textfooler/mnli all" in capsys.readouterr().err) == said
    (folder / "run.json").write_text("[of another program")
    assert main(["attack", "tuned", *ATTACK[2:], "--examples", "5", "--output", "other.json"]) == 0


def test_a_changed_constant_is_in_the_result(here: Path) -> None:
    words = [
        *ATTACK,
        "--set",
        "typos.max_share=0.5",
        "--set",
        "reconsider=false",
        "--examples",
        "5",
        "--output",
        "r.json",
    ]
    assert main(words) == 0
    recipes = read_result(here / "r.json")["protocol"]["recipes"]
    assert recipes["typos"]["changed_from_published"] == {"max_share": 0.5}
    assert recipes["pwws"]["changed_from_published"] == {"reconsider": False}
    own = {"reconsider": False, "same_tag": False, "inflected": False}
    assert recipes["pwws"]["constants"] == {"max_share": 1.0, "max_words": None, "valid_synonyms": False} | own


def test_examples_are_drawn_by_the_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def numbers(seed: str) -> list[int]:
        capsys.readouterr()
        assert main([*ATTACK[:-4], "--recipes", "typos", "--examples", "6", "--seed", seed, "--json"]) == 0
        return [example["number"] for example in json.loads(capsys.readouterr().out)["examples"]]

    assert numbers("1") == numbers("1") == sorted(numbers("1"))
    assert numbers("1") != numbers("2")


def test_labels_are_numbered_as_the_model_does(here: Path) -> None:
    """A model whose classes stand in another order than the task's is right about the same examples."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(here / "model")
    order = [2, 0, 1]
    with torch.no_grad():
        model.classifier.weight.copy_(model.classifier.weight[order].clone())
        model.classifier.bias.copy_(model.classifier.bias[order].clone())
    names = [model.config.id2label[i] for i in order]
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: i for i, name in enumerate(names)}
    model.save_pretrained(here / "turned")
    AutoTokenizer.from_pretrained(here / "model").save_pretrained(here / "turned")
    for name in ("model", "turned"):
        assert main([ATTACK[0], name, *ATTACK[2:], "--output", f"{name}.json"]) == 0
    first, second = (read_result(here / f"{name}.json") for name in ("model", "turned"))
    assert [e["outcome"] for e in first["examples"]] == [e["outcome"] for e in second["examples"]]
    assert [e["label"] for e in first["examples"]] != [e["label"] for e in second["examples"]]
    assert first["results"][0]["metrics"]["accuracy"] > 70.0


def test_the_name_of_a_result_may_hold_any_sign(here: Path) -> None:
    assert main([*ATTACK, "--output", "r[1].json"]) == 0
    assert read_result(here / "r[1].json")["results"]
    assert not list(here.glob(".r*journal*"))


def test_a_recipe_with_a_dash_has_constants() -> None:
    (recipe,) = make_recipes(["bae-r"], split_settings(["bae-r.candidates=20"]))
    assert recipe.changed_constants() == {"candidates": 20}


def test_recipes_are_listed_with_every_constant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "--json"]) == 0
    described = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    published = {
        "textfooler": {"candidates": 50, "minimum_cosine": 0.5, "minimum_similarity": 0.8776, "window": 15}
        | {"verbs_as_nouns": True},
        "textbugger": {"neighbours": 5, "minimum_cosine": -1.0, "minimum_similarity": 0.809},
        "bae-r": {"candidates": 50, "minimum_similarity": 0.936338, "window": 15, "verbs_as_nouns": True},
        "bertattack": {"candidates": 8, "max_share": 0.4, "minimum_similarity": 0.2},
        "geometry": {
            "candidates": 50,
            "max_words": 20,
            "max_share": 0.4,
            "valid_synonyms": False,
            "minimum_cosine": 0.5,
            "source": "auto",
        },
    }
    for name, constants in published.items():
        budget = {"max_share": 1.0, "max_words": None, "valid_synonyms": False}
        assert {key: c["value"] for key, c in described[name]["constants"].items()} == budget | constants
    for row in described.values():
        assert all(c["meaning"] for c in row["constants"].values())
    assert main(["recipes", "pwws"]) == 0
    assert "reconsider" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--recipes", "pws"], "did you mean 'pwws'?"),
        (["--recipes", ""], "names no recipe"),
        (["--recipes", ","], "--recipes takes a list of names, not ','"),
        (["--set", "candidatess=3", "--recipes", "textfooler"], "did you mean 'candidates'?"),
        (["--set", "textfooler.candidates=3", "--recipes", "pwws"], "not among the recipes"),
        (["--set", "same_tag=7", "--recipes", "pwws"], "takes true or false"),
        (["--set", "max_share=40", "--recipes", "pwws"], "pwws: max_share must lie in (0, 1], got 40"),
        (["--set", "max_words=0", "--recipes", "pwws"], "option 'pwws.max_words' must be from 1"),
        (["--set", "tries=0", "--recipes", "typos"], "option 'typos.tries' must be from 1"),
        (["--set", "candidates=-3", "--recipes", "bertattack"], "option 'bertattack.candidates' must be from 1"),
        (["--set", "neighbours=0", "--recipes", "textbugger"], "option 'textbugger.neighbours' must be from 1"),
        (["--set", "window=0", "--recipes", "textfooler"], "option 'textfooler.window' must be from 1"),
        (["--goal", "scor"], "did you mean 'score'?"),
        (["--goal", "score"], "does not go with textfooler/mnli"),
        (["--texts", "x.txt"], "either --task"),
        (["--examples", "0"], "from 1 to"),
        (["--processes", "0", "--output", "r.json"], "from 1 to"),
        (["--side-by-side", "0"], "--side-by-side must be from 1"),
        (["--call-batch", "0"], "--call-batch must be from 1"),
        (["--k", "0"], "--k must be from 1"),
        (["--seed", "-1"], "--seed must be from 0 to 4294967295"),
        (["--processes", "2"], "--output"),
        (["--texts", "-", "--processes", "2", "--output", "r.json"], "read by one process only"),
        (["--output", "."], "is a folder"),
        (["--split", "tset"], "has no split"),
        (["--recipes", "textfooler", "--resources", "light"], "the neighbour lists are not here"),
        (["--resources", "heavy"], "paper"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    message = mistake(
        capsys,
        [
            "attack",
            "model",
            "--task",
            "textfooler/mnli",
            *(["--recipes", "pwws"] if "--recipes" not in words else []),
            *words,
        ],
    )
    assert line in message
    assert not list(here.glob("*.json"))


def test_an_encoder_without_classes_is_refused(
    here: Path, make_masked_lm: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_masked_lm(here / "lm")
    assert "classif" in mistake(capsys, ["attack", "lm", "--task", "textfooler/mnli", "--recipes", "pwws"])


def test_too_few_classes_are_told(here: Path, make_classifier: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "binary").symlink_to(make_classifier(classes=2))
    message = mistake(capsys, ["attack", "binary", "--task", "textfooler/mnli", "--recipes", "pwws"])
    assert "2 classes" in message
    assert "holdfast finetune" in message


def test_show_refuses_other_results(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTACK, "--examples", "3", "--output", "r.json"]) == 0
    result = read_result(here / "r.json")
    result.pop("examples")
    (here / "e.json").write_text(json.dumps(result))
    assert "not a result of attack or audit" in mistake(capsys, ["show", "e.json"])
    assert "did you mean" in mistake(capsys, ["show", "r.json", "--recipe", "pws"])


def test_the_split_that_is_attacked_is_one_that_is_here(here: Path, tmp_path: Path) -> None:
    from holdfast.attacks.attack_inputs import load_inputs
    from holdfast.attacks.attack_settings import AttackSettings

    def split(task: str) -> str:
        return load_inputs(AttackSettings("any", task=task, data=tmp_path / "data")).split

    write(tmp_path / "data" / "sst2" / "dev.tsv", ["sentence", "label"], [("the dog runs", "1")])
    assert split("sst2") == "dev"  # there is no test split in this folder
    write(tmp_path / "data" / "sst2" / "test.tsv", ["sentence", "label"], [("the cat runs", "1")])
    assert split("sst2") == "test"


def test_a_model_that_gives_one_number_is_refused(here: Path, tmp_path: Path, capsys: Any) -> None:
    rows = [("the dog runs", "a cat sleeps", "1.5"), ("the man eats", "a man eats", "4")]
    for split in ("dev", "test"):
        write(tmp_path / "data" / "stsb" / f"{split}.tsv", ["sentence1", "sentence2", "score"], rows)
    shutil.copytree(tmp_path / "model", tmp_path / "regression")
    config = tmp_path / "regression" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "problem_type": "regression"}))
    assert main(["attack", "regression", "--task", "stsb", "--recipes", "typos"]) == 2
    assert "regression gives one number for a text" in capsys.readouterr().err


def test_a_similarity_that_only_measures_is_opened_before_the_attack(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_attack(*_: Any, **__: Any) -> None:
        raise AssertionError("the attack began")

    monkeypatch.setattr("holdfast.attacks.engine.Engine.run", no_attack)
    (here / "damaged").mkdir()
    (here / "damaged" / "modules.json").write_text("[")
    line = mistake(capsys, [*ATTACK, "--similarity", "damaged", "--output", "r.json"])
    assert "--similarity" in line
    assert "damaged" in line
    line = mistake(capsys, [*ATTACK, "--similarity", "damagd/nowhere/x", "--output", "r.json"])
    assert "--similarity" in line
    assert "damagd" in line
    assert not list(here.glob("r.*"))
    monkeypatch.setattr("holdfast.attacks.resources.importlib.util.find_spec", lambda name: None)
    with pytest.raises(AssertionError, match="the attack began"):  # the set's own may be absent
        main([*ATTACK, "--resources", "light"])
