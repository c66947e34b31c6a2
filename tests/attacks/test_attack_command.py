"""`holdfast attack` and what reads its results, from the command line on small files."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_attacks import CONTENT, neighbours, sentence

from holdfast.attacks.journal import journals
from holdfast.attacks.run import AttackSettings, attack, make_recipes
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.results import read_result
from holdfast.values import split_settings

ATTACK = ["attack", "model", "--task", "textfooler/mnli", "--recipes", "pwws,typos", "--precision", "fp32"]


@pytest.fixture
def here(tmp_path: Path, classifier_folder: Path, classifier: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a classifier of pairs, a task of 40 pairs, and a WordNet of the small vocabulary.

    The classifier is right about all pairs but each fifth.
    """
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    (tmp_path / "model").symlink_to(classifier_folder)
    rng = random.Random(5)
    pairs = [(sentence(rng), sentence(rng)) for _ in range(40)]
    says = classifier.logits(pairs).argmax(axis=1)
    rows = [
        (*pair, classifier.classes[(label + (i % 5 == 0)) % 3])
        for i, (pair, label) in enumerate(zip(pairs, says, strict=True))
    ]
    rows[7] = ("the dog runs", "", "neutral")
    write(tmp_path / "data" / "textfooler" / "mnli.tsv", ["sentence1", "sentence2", "label"], rows)
    synsets: list[tuple[str, ...]] = [
        ("n", f"{i:08d}", "|".join([word, other]), "", "", "a gloss")
        for i, (word, other) in enumerate((word, other) for word in CONTENT for other in neighbours(word))
    ]
    write(
        tmp_path / "data" / "wordnet" / "synsets.tsv",
        ["pos", "offset", "lemmas", "hypernyms", "antonyms", "gloss"],
        synsets,
    )
    write(tmp_path / "data" / "wordnet" / "exceptions.tsv", ["pos", "inflected", "lemmas"], [("noun", "mice", "mouse")])
    return tmp_path


def write(path: Path, header: list[str], rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), encoding="utf-8")


def content(path: Path) -> dict[str, Any]:
    """A result without what is different each time."""
    result = read_result(path)
    for key in ("created", "timing", "command", "environment"):
        result.pop(key)
    for example in result["examples"]:
        example["before"].pop("value", None), example["after"].pop("value", None)
        example.pop("passes")
    return result


def mistake(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return told.err.splitlines()[-1]


def test_an_attack_from_end_to_end(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTACK, "--output", "r.json"]) == 0
    told = capsys.readouterr().out
    assert "pwws" in told
    assert "1 skipped: the text is empty" in told
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
    assert recipes["pwws"]["constants"] == {"max_share": 1.0, "max_words": None} | own


def test_examples_are_drawn_by_the_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def numbers(seed: str) -> list[int]:
        capsys.readouterr()
        assert main([*ATTACK[:-4], "--recipes", "typos", "--examples", "6", "--seed", seed, "--json"]) == 0
        return [example["number"] for example in json.loads(capsys.readouterr().out)["examples"]]

    assert numbers("1") == numbers("1") == sorted(numbers("1"))
    assert numbers("1") != numbers("2")


def run(here: Path, words: list[str], **variables: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.Popen(command, cwd=here, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_result(here: Path) -> None:
    whole = [*ATTACK, "--side-by-side", "2"]
    assert main([*whole, "--output", "whole.json"]) == 0
    for attempt in range(3):
        child = run(here, [*whole, "--output", "parts.json", "--resume"])
        for _ in range(600):
            written = sum(path.read_bytes().count(b"\n") for path in journals(here / "parts.json"))
            if written > 8 * (attempt + 1) or child.poll() is not None:
                break
            time.sleep(0.05)
        assert child.poll() is None, child.communicate()[1].decode()[-2000:]
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert not (here / "parts.json").exists()
    assert main([*whole, "--output", "parts.json", "--resume"]) == 0
    assert content(here / "parts.json") == content(here / "whole.json")


@pytest.mark.slow
def test_several_processes_give_the_same_result(here: Path) -> None:
    assert main([*ATTACK, "--output", "one.json"]) == 0
    child = run(here, [*ATTACK, "--output", "three.json", "--processes", "3"])
    assert child.communicate(timeout=300)[1] is not None
    assert child.returncode == 0
    # As a launcher does it.
    launched = [run(here, [*ATTACK, "--output", "two.json"], RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    for process in launched:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert content(here / "one.json") == content(here / "three.json") == content(here / "two.json")
    assert not list(journals(here / "three.json"))


def test_processes_that_nobody_starts_are_not_waited_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = AttackSettings("model", recipes=["pwws"], task="textfooler/mnli", output=here / "r.json", processes=2)
    with pytest.raises(UserError, match="start this script with torchrun"):
        attack(given)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert "leave out --processes" in mistake(capsys, [*ATTACK, "--output", "r.json", "--processes", "2"])


def test_a_process_attacks_its_share_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([*ATTACK, "--output", "r.json"]) == 0
    (journal,) = journals(here / "r.json")
    rows = [json.loads(line)["row"] for line in journal.read_text().splitlines()]
    attacked = [(row["recipe"], row["number"]) for row in rows if "recipe" in row]
    assert sorted(attacked) == [(recipe, n) for recipe in ("pwws", "typos") for n in range(1, 40, 2)]
    assert not (here / "r.json").exists()


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


def test_a_helper_process_that_fails_ends_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that cannot start must not leave the first process waiting for ever."""
    import holdfast.attacks.run as module

    class Dead:
        returncode = 1

        def poll(self) -> int:
            return 1

        def wait(self) -> int:
            return 1

        def terminate(self) -> None: ...

    monkeypatch.setattr(module.subprocess, "Popen", lambda *_, **__: Dead())
    assert main([*ATTACK, "--output", "r.json", "--processes", "2"]) == 2
    assert not (here / "r.json").exists()
    assert list(journals(here / "r.json"))  # what was finished is kept for --resume


def test_the_name_of_a_result_may_hold_any_sign(here: Path) -> None:
    assert main([*ATTACK, "--output", "r[1].json"]) == 0
    assert read_result(here / "r[1].json")["results"]
    assert not list(here.glob(".r*journal*"))


def test_a_recipe_with_a_dash_has_constants() -> None:
    (recipe,) = make_recipes(["bae-r"], split_settings(["bae-r.candidates=20"]))
    assert recipe.changed_constants() == {"candidates": 20}


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
    assert rows["model", "model"]["n"] == len(succeeded)
    cross = rows["model", "other"]
    assert 0 < cross["n"] < len(succeeded)
    assert 0.0 <= cross["metrics"]["success_rate"] < 100.0


def test_recipes_are_listed_with_every_constant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "--json"]) == 0
    described = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    published = {
        "textfooler": {"candidates": 50, "minimum_cosine": 0.5, "minimum_similarity": 0.8776, "window": 15}
        | {"verbs_as_nouns": True},
        "textbugger": {"neighbours": 5, "minimum_cosine": -1.0, "minimum_similarity": 0.809},
        "bae-r": {"candidates": 50, "minimum_similarity": 0.936338, "window": 15, "verbs_as_nouns": True},
        "bertattack": {"candidates": 8, "max_share": 0.4, "minimum_similarity": 0.2},
        "geometry": {"candidates": 50, "max_words": 20, "max_share": 0.4, "minimum_cosine": 0.5, "source": "auto"},
    }
    for name, constants in published.items():
        budget = {"max_share": 1.0, "max_words": None}
        assert {key: c["value"] for key, c in described[name]["constants"].items()} == budget | constants
    for row in described.values():
        assert all(c["meaning"] for c in row["constants"].values())
    assert main(["recipes", "pwws"]) == 0
    assert "reconsider" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--recipes", "pws"], "did you mean 'pwws'?"),
        (["--recipes", ","], "names no recipe"),
        (["--set", "candidatess=3", "--recipes", "textfooler"], "did you mean 'candidates'?"),
        (["--set", "textfooler.candidates=3", "--recipes", "pwws"], "not among the recipes"),
        (["--set", "same_tag=7", "--recipes", "pwws"], "takes true or false"),
        (["--set", "max_share=40", "--recipes", "pwws"], "pwws: max_share must lie in (0, 1], got 40"),
        (["--set", "max_words=0", "--recipes", "pwws"], "pwws: max_words must be at least 1, got 0"),
        (["--goal", "scor"], "did you mean 'score'?"),
        (["--goal", "score"], "does not go with textfooler/mnli"),
        (["--texts", "x.txt"], "either --task"),
        (["--examples", "0"], "at least 1"),
        (["--processes", "0", "--output", "r.json"], "at least 1"),
        (["--side-by-side", "0"], "--side-by-side must be at least 1"),
        (["--call-batch", "0"], "--call-batch must be at least 1"),
        (["--k", "0"], "--k must be at least 1"),
        (["--seed", "-1"], "--seed must be from 0 to 4294967295"),
        (["--processes", "2"], "--output"),
        (["--texts", "-", "--processes", "2", "--output", "r.json"], "read by one process alone"),
        (["--output", "."], "is a folder"),
        (["--split", "tset"], "has no split"),
        (["--recipes", "textfooler", "--resources", "light"], "the neighbour lists are not here"),
        (["--resources", "heavy"], "paper"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    told = mistake(
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
    assert line in told
    assert not list(here.glob("*.json"))


def test_an_encoder_without_classes_is_refused(
    here: Path, make_masked_lm: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make_masked_lm(here / "lm")
    assert "classif" in mistake(capsys, ["attack", "lm", "--task", "textfooler/mnli", "--recipes", "pwws"])


def test_too_few_classes_are_told(here: Path, make_classifier: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "binary").symlink_to(make_classifier(classes=2))
    told = mistake(capsys, ["attack", "binary", "--task", "textfooler/mnli", "--recipes", "pwws"])
    assert "2 classes" in told
    assert "holdfast finetune" in told


def test_a_function_is_attacked_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "mine.py").write_text(
        "import numpy as np\n"
        "def says(pairs):\n"
        "    n = np.array([len(b) % 3 for _, b in pairs])\n"
        "    return np.eye(3)[n] * 4\n"
    )
    (here / "lists.tsv").write_text("word\tneighbors\ndog\tcat\n")
    path = list(sys.path)
    words = ["attack", "call:mine:says", "--task", "textfooler/mnli", "--recipes", "pwws", "--output", "f.json"]
    assert main(words) == 0
    result = read_result(here / "f.json")
    assert result["results"][0]["metrics"]["attacked"] > 3
    assert result["protocol"]["precision"] == "fp32"
    assert sys.path == path
    assert len(result["model_sha256"]) == 64
    (here / "picky.py").write_text(
        "import mine\n"
        "def says(pairs):\n"
        "    assert len(pairs) <= 7, 'too many'\n"
        "    return mine.says(pairs)\n"
    )  # fmt: skip
    picky = ["attack", "call:picky:says", *words[2:-2]]
    assert "AssertionError: too many" in mistake(capsys, picky)
    assert main([*picky, "--call-batch", "7", "--output", "p.json"]) == 0
    batched, whole = content(here / "p.json"), content(here / "f.json")
    assert batched["examples"] == whole["examples"]
    (here / "broken.py").write_text("import mine\nno_such_name\n")
    assert "call:broken:says: NameError" in mistake(capsys, ["attack", "call:broken:says", *words[2:-2]])
    (here / "failing.py").write_text("def says(pairs):\n    raise KeyError('weights')\n")
    assert "failed, or returned no array of numbers: KeyError" in mistake(
        capsys, ["attack", "call:failing:says", *words[2:-2]]
    )
    assert "call:package.module:function" in mistake(capsys, ["attack", "call:mine", *words[2:-2]])
    assert "leave geometry out of --recipes" in mistake(
        capsys, [*words[:-4], "--recipes", "geometry", "--set", "source=neighbours", "--synonyms", "lists.tsv"]
    )
    assert "no attribute" in mistake(capsys, ["attack", "call:mine:sings", *words[2:-2]])


SERVICE = """
import zlib
import numpy as np

def embed(texts):
    assert len(texts) <= 9, "too many"
    vectors = np.full((len(texts), 16), 0.1)
    for row, text in enumerate(texts):
        for word in text.lower().strip(".").split():
            vectors[row, zlib.crc32(word.encode()) % 16] += 1.0
    return vectors

def short(texts):
    return embed(texts)[1:]
"""


@pytest.fixture
def service(here: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder has an embedding service that takes nine texts at a time; its function."""
    (here / "embedding_service.py").write_text(SERVICE)
    rng = random.Random(8)
    for split in ("dev", "test"):
        rows = [(sentence(rng), sentence(rng), f"{i % 6}") for i in range(36)]
        write(here / "data" / "stsb" / f"{split}.tsv", ["sentence1", "sentence2", "score"], rows)
    monkeypatch.delitem(sys.modules, "embedding_service", raising=False)
    monkeypatch.syspath_prepend(here)
    return importlib.import_module("embedding_service").embed


ON_SERVICE = ["attack", "call:embedding_service:embed", "--call-batch", "9", "--recipes", "typos"]


@pytest.mark.parametrize(
    "words",
    [
        ["--texts", "mine.txt"],
        ["--texts", "mine.txt", "--goal", "neighbours", "--k", "2", "--search", "others.txt"],
        ["--task", "stsb"],
    ],
    ids=["drift", "neighbours", "score"],
)
def test_an_embedding_service_is_attacked(
    here: Path, service: Any, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*ON_SERVICE, *words, "--set", "max_share=0.35"]
    assert main([*words, "--precision", "bf16", "--output", "r.json"]) == 0
    result = read_result(here / "r.json")
    assert result["protocol"]["precision"] == "fp32", "a function computes as it does"
    assert result["model_sha256"] == hashlib.sha256(SERVICE.encode()).hexdigest()
    goal, rows = result["protocol"]["goal"], result["examples"]
    assert {"succeeded", "failed"} <= {row["outcome"] for row in rows}

    def cosine(a: str, b: str) -> float:
        first, second = service([a, b])
        return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))

    for row in (row for row in rows if row["before"]):
        texts = [row[name] for name in ("original", "adversarial")]
        if goal["kind"] == "drift":
            assert row["after"]["value"] == pytest.approx(cosine(*texts), abs=2e-5)
            assert (row["outcome"] == "succeeded") == (row["after"]["value"] < goal["threshold"])
        elif goal["kind"] == "score":
            values = [row[when]["value"] for when in ("before", "after")]
            assert values == pytest.approx([cosine(row["other"], text) for text in texts], abs=2e-5)
        else:
            others = (here / "others.txt").read_text().splitlines()
            found = [sorted((cosine(text, other) for other in others), reverse=True)[:2] for text in texts]
            told = [[cosine(text, t) for t in row[w]["neighbours"]] for text, w in zip(texts, ROUNDS, strict=True)]
            np.testing.assert_allclose(told, found, atol=2e-5)
    assert mistake(capsys, [*words, "--call-batch", "10"]).endswith("AssertionError: too many")


ROUNDS = ("before", "after")


def test_mistakes_with_an_embedding_service_are_one_line(
    here: Path, service: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--recipes", "typos", "--texts", "mine.txt", "--call-batch", "9"]
    told = mistake(capsys, ["attack", "call:embedding_service:short", *words])
    assert "call:embedding_service:short returned an array of shape (8, 16) for 9 texts" in told
    (here / "lists.tsv").write_text("word\tneighbors\ndog\tcat\n")
    geometry = ["--recipes", "geometry", "--set", "source=neighbours", "--synonyms", "lists.tsv"]
    told = mistake(capsys, [*ON_SERVICE[:-2], *words[2:], *geometry])
    assert "gives no gradients: leave geometry out of --recipes" in told


# --- neighbours --------------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(here: Path, make_encoder_model: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folder has an encoder, its sentences in mine.txt, one of them twice, and other ones in others.txt."""
    make_encoder_model("bert", pooling="mean").save_pretrained(str(here / "encoder"))
    rng = random.Random(3)
    texts = [f"the {rng.choice(CONTENT)} {sentence(rng)}" for _ in range(40)]
    (here / "mine.txt").write_text("\n".join([*texts, texts[0]]) + "\n")
    (here / "others.txt").write_text("".join(sentence(rng) + "\n" for _ in range(30)))
    monkeypatch.setattr("holdfast.attacks.resources.importlib.util.find_spec", lambda name: None)
    return texts


NEIGHBOURS = ["attack", "encoder", "--goal", "neighbours", "--k", "2", "--recipes", "pwws", "--precision", "fp32"]


def searched(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[int, Any]]:
    """What a result says was searched, and its examples by number."""
    capsys.readouterr()
    assert main([*NEIGHBOURS, *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    return result["protocol"]["goal"]["searched"], {row["number"]: row for row in result["examples"]}


def test_neighbours_are_sought_among_all_lines_however_few_are_attacked(
    here: Path, corpus: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    record, few = searched(["--texts", "mine.txt", "--k", "8", "--recipes", "typos", "--examples", "3"], capsys)
    assert record == {
        "source": "mine.txt",
        "sentences": 41,
        "different": 40,
        "sha256": hashlib.sha256("\n".join([*corpus, corpus[0]]).encode()).hexdigest(),
        "cut": False,
    }
    again, more = searched(["--texts", "mine.txt", "--k", "8", "--recipes", "typos", "--examples", "12"], capsys)
    _, every = searched(["--texts", "mine.txt", "--k", "8", "--recipes", "typos"], capsys)
    assert again == record
    assert (len(few), len(more), len(every)) == (3, 12, 41)
    for number, row in [*few.items(), *more.items()]:
        assert {**row, "passes": 0} == {**every[number], "passes": 0}
    outcomes = [row["outcome"] for row in every.values()]
    assert {"succeeded", "failed"} <= {*outcomes}
    for row in every.values():
        before, after = row["before"]["neighbours"], row["after"]["neighbours"]
        assert len(before) == len(after) == 8
        assert {*before, *after} <= {*corpus} - {row["original"]}
        assert row["after"]["value"] == len({*before} & {*after}) / 8
        assert (row["outcome"] == "succeeded") == (not {*before} & {*after})
    # Of a task the whole split is searched, too.
    record, _ = searched(["--task", "textfooler/mnli", "--examples", "3"], capsys)
    assert (record["source"], record["sentences"]) == ("textfooler/mnli all", 40)


def test_another_corpus_is_searched_and_neighbours_are_shown(
    here: Path, corpus: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--texts", "mine.txt", "--search", "others.txt", "--examples", "20"]
    record, rows = searched(words, capsys)
    others = (here / "others.txt").read_text().splitlines()
    assert (record["source"], record["sentences"], record["cut"]) == ("others.txt", 30, False)
    assert all({*row["before"]["neighbours"], *row["after"]["neighbours"]} <= {*others} for row in rows.values())

    monkeypatch.setattr("holdfast.attacks.searched.SEARCHED_MOST", 12)
    assert main([*NEIGHBOURS, *words, "--examples", "9", "--output", "r.json"]) == 0
    assert "neighbours among 12 different texts of others.txt (its first 12 sentences)" in capsys.readouterr().out
    result = read_result(here / "r.json")
    assert result["protocol"]["goal"]["searched"]["cut"] is True
    row = next(row for row in result["examples"] if row["outcome"] == "succeeded")
    assert {*row["before"]["neighbours"], *row["after"]["neighbours"]} <= {*others[:12]}
    assert json.loads((here / "r.examples.jsonl").read_text().splitlines()[0]) == result["examples"][0]
    assert main(["show", "r.json"]) == 0
    first, second = row["before"]["neighbours"]
    now, then = row["after"]["neighbours"]
    expected = f"  nearest: {first}\n           {second}\n  now:     {now}\n           {then}\n"
    assert " ".join(expected.split()) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--texts", "mine.txt", "--goal", "drift", "--search", "others.txt"], "--search others.txt is for --goal n"),
        (["--task", "textfooler/mnli", "--goal", "auto", "--search", "others.txt"], "is for --goal neighbours"),
        (["--texts", "mine.txt", "--search", "blank.txt"], "blank.txt"),
        (["--texts", "mine.txt", "--search", "othrs.txt"], "others.txt"),
        (["--texts", "few.txt"], "few.txt holds 4 different texts, and to lose 2 neighbours takes more than 4"),
        (["--texts", "mine.txt", "--search", "few.txt"], "few.txt holds 4 different texts"),
        (["--texts", "mine.txt", "--k", "20"], "mine.txt holds 40 different texts, and to lose 20"),
        (["--texts", "-", "--search", "-"], "only once"),
        (["--texts", "mine.txt", "--search", "-", "--processes", "2", "--output", "r.json"], "by one process alone"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_in_what_is_searched_are_one_line(
    here: Path, corpus: list[str], capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    (here / "blank.txt").write_text("\n \n")
    (here / "few.txt").write_text("".join(f"{text}\n" for text in (*corpus[:4], corpus[0])))
    assert line in mistake(capsys, [*NEIGHBOURS, *words])


def test_show_refuses_other_results(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTACK, "--examples", "3", "--output", "r.json"]) == 0
    result = read_result(here / "r.json")
    result.pop("examples")
    (here / "e.json").write_text(json.dumps(result))
    assert "not a result of attack or audit" in mistake(capsys, ["show", "e.json"])
    assert "did you mean" in mistake(capsys, ["show", "r.json", "--recipe", "pws"])


def test_the_split_that_is_attacked_is_one_that_is_here(here: Path, tmp_path: Path) -> None:
    from holdfast.attacks.material import load_material

    def split(task: str) -> str:
        return load_material(task, None, split=None, goal="auto", count=None, seed=0, data=tmp_path / "data").split

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
