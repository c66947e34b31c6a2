"""The options --backend and --search-backend: results, records, resumed runs and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.targets import ClassifierTarget
from holdfast.audit.audit_run import audit
from holdfast.audit.audit_settings import AuditSettings
from holdfast.backends.backend_options import Backend
from holdfast.cli import main
from holdfast.encoding import encode_sentences
from holdfast.models import load_sentence_transformer

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture
def here(
    tmp_path: Path, make_encoder_model: Callable[..., Any], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with an encoder, texts and a task of similarity."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    make_encoder_model("bert", pooling="mean").save("encoder")
    texts = [f"{first} and {second}" for first in sentences for second in sentences[:3]]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    rows = [
        f"{first}\t{second}\t{number % 6}\n"
        for number, (first, second) in enumerate(zip(texts, texts[5:], strict=False))
    ]
    (tmp_path / "data" / "stsb" / "test.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return tmp_path


EVALUATE = ["evaluate", "encoder", "--tasks", "stsb", "--data", "data"]


def test_evaluate_scores_and_records_the_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = {}
    for name in ("torch", "onnx", "int8"):
        assert main([*EVALUATE, "--backend", name, "--output", f"{name}.json"]) == 0
        results[name] = json.loads((here / f"{name}.json").read_text())
    scores = {name: result["results"][0]["metrics"]["spearman"] for name, result in results.items()}
    assert scores["onnx"] == pytest.approx(scores["torch"], abs=1e-3)
    assert "backend" not in results["torch"]["protocol"]
    record = results["int8"]["protocol"]["backend"]
    assert record["name"] == "onnx-int8"
    assert record["graphs"][0]["library"].startswith("onnxruntime ")
    assert len(record["graphs"][0]["sha256"]) == 64
    capsys.readouterr()
    assert main(["compare", "torch.json", "int8.json", "--resamples", "100"]) == 0
    assert "A  encoder (torch.json)\nB  encoder (onnx-int8) (int8.json)\n" in capsys.readouterr().out
    for words, message in (
        (["--precision", "bf16"], "--precision bf16 is for torch"),
        (["--backend", "onxx"], "did you mean 'onnx'"),
    ):
        assert main([*EVALUATE, "--backend", "onnx", *words]) == 2
        assert message in capsys.readouterr().err


def test_an_audit_of_a_graph_has_torchs_numbers(here: Path) -> None:
    rows = {}
    for name in ("torch", "onnx"):
        given = AuditSettings("encoder", texts="texts.txt", items="case.upper,space", backend=name, texts_per_item=10)
        result = audit(given)
        rows[name] = [row["metrics"] for row in result["results"]]
        assert result["protocol"].get("backend", {"name": "torch"})["name"] == name
    assert rows["torch"]
    for ours, theirs in zip(rows["onnx"], rows["torch"], strict=True):
        assert ours == pytest.approx(theirs, abs=1e-3, nan_ok=True)


def attacked(**given: Any) -> dict[str, Any]:
    return attack(AttackSettings("encoder", recipes=["typos"], texts="texts.txt", examples=12, **given))


def outcomes(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["outcome"], row["adversarial"]) for row in result["examples"]]


def test_an_attack_searches_a_graph_and_reports_torch(here: Path) -> None:
    plain, on_graph = attacked(), attacked(search_backend="onnx")
    equal = [ours == theirs for ours, theirs in zip(outcomes(on_graph), outcomes(plain), strict=True)]
    assert sum(equal) >= 10  # of 12; unknown words have equal scores, of which rounding prefers one
    assert {"succeeded", "failed"} & {outcome for outcome, _ in outcomes(plain)}
    assert "backend" not in on_graph["protocol"]
    assert on_graph["protocol"]["search_backend"]["name"] == "onnx"
    assert attacked(backend="onnx")["protocol"]["backend"]["name"] == "onnx"


def test_reported_scores_and_successes_of_an_int8_search_are_torchs(here: Path) -> None:
    model = load_sentence_transformer("encoder")
    result = attacked(search_backend="int8")
    threshold = result["protocol"]["goal"]["threshold"]
    checked = 0
    for row in result["examples"]:
        if row["outcome"] == "skipped":
            continue
        first, second = encode_sentences(model, [row["original"], row["adversarial"]]).astype(float)
        cosine = first @ second / (first @ first) ** 0.5 / (second @ second) ** 0.5
        assert row["after"]["value"] == pytest.approx(cosine, abs=2e-5)
        assert (row["outcome"] == "succeeded") == (round(cosine, 5) < threshold)
        checked += 1
    assert checked > 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--backend", "onnx", "--recipes", "geometry"], "gives no gradients with --backend onnx"),
        (["--backend", "onnx", "--precision", "bf16"], "--precision bf16 is for torch"),
        (["--search-backend", "onxx"], "--search-backend: no backend 'onxx'"),
    ],
)
def test_what_a_graph_cannot_do_is_refused(
    here: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = [] if "--recipes" in words else ["--recipes", "typos"]
    assert main(["attack", "encoder", "--texts", "texts.txt", *recipes, *words]) == 2
    assert message in capsys.readouterr().err


def test_a_stopped_attack_is_not_continued_with_another_form(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.attacks import attack_run

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(attack_run, "_result", stop)
    command = ["attack", "encoder", "--texts", "texts.txt", "--recipes", "typos", "--examples", "4"]
    main([*command, "--search-backend", "onnx", "--output", "r.json"])
    monkeypatch.undo()
    monkeypatch.chdir(here)
    capsys.readouterr()
    assert main([*command, "--search-backend", "int8", "--output", "r.json", "--resume"]) == 2
    assert "search_backend" in capsys.readouterr().err


@pytest.fixture
def classifier(here: Path, make_masked_lm: Callable[..., Path]) -> Path:
    """The folder of a random classifier of two classes, and a task for it."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = make_masked_lm(here / "classifier")
    names = {0: "negative", 1: "positive"}
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2, id2label=names)
    torch.manual_seed(1)
    torch.nn.init.normal_(model.classifier.weight, std=0.7)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = (here / "texts.txt").read_text().splitlines()
    (here / "data" / "sst2").mkdir()
    rows = "".join(f"{text}\t{number % 2}\n" for number, text in enumerate(texts))
    (here / "data" / "sst2" / "test.tsv").write_text("sentence\tlabel\n" + rows)
    return folder


def test_classifiers_are_attacked_as_graphs_and_searched_on_them(classifier: Path, sentences: list[str]) -> None:
    folder = str(classifier)
    pairs = list(zip(sentences, reversed(sentences), strict=True))
    plain, graph = load_classifier(folder, device="cpu"), load_classifier(folder, backend=Backend("onnx"))
    for given in ([(text,) for text in sentences], pairs):
        assert np.abs(graph.logits(given) - plain.logits(given)).max() < 1e-4
    assert np.abs(plain.logits(pairs) - plain.logits([(first,) for first, _ in pairs])).max() > 0.01
    assert plain.has_gradients
    assert not graph.has_gradients
    target, int8 = ClassifierTarget(plain), load_classifier(folder, backend=Backend("onnx-int8"))
    target.search_classifier = int8
    rough, exact = (np.stack(target.outputs(pairs, exact=is_exact)) for is_exact in (False, True))
    assert np.abs(rough - int8.logits(pairs)).max() < 1e-6
    assert np.abs(exact - plain.logits(pairs)).max() < 1e-6
    assert np.abs(rough - exact).max() > 1e-4
    command = ["attack", folder, "--task", "sst2", "--data", "data", "--recipes", "typos", "--examples", "8"]
    found = {}
    for name, words in {"graph": ["--backend", "onnx"], "search": ["--search-backend", "int8"]}.items():
        assert main([*command, *words, "--output", f"{name}.json"]) == 0
        found[name] = json.loads(Path(f"{name}.json").read_text())
    assert found["graph"]["protocol"]["backend"]["name"] == "onnx"
    assert found["search"]["protocol"]["search_backend"]["name"] == "onnx-int8"
    assert "succeeded" in {row["outcome"] for row in found["search"]["examples"]}
    for row in found["search"]["examples"]:
        label = int(plain.logits([(row["adversarial"],)]).argmax())
        assert label == row["after"]["label"]


def test_functions_take_no_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.py").write_text("def embed(texts): return [[len(text), 1.0] for text in texts]\n")
    for command in (["attack", "--recipes", "typos"], ["audit"]):
        words = [command[0], "call:mine:embed", *command[1:], "--texts", "texts.txt", "--backend", "onnx"]
        assert main(words) == 2
        assert "--backend is for a model, and call:mine:embed is a function" in capsys.readouterr().err
