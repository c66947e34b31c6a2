"""`holdfast attack --as FORM`: the scores come from vectors in the form, and without gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_attacks import mistake
from test_attack_functions import ON_SERVICE
from test_attack_functions import service as service

from holdfast.attacks.encoder_targets import DriftTarget
from holdfast.attacks.examples import Example
from holdfast.attacks.retrieval_target import RetrievalTarget
from holdfast.cli import main
from holdfast.encoding import normalised
from holdfast.forms import parse_form
from holdfast.results import read_result
from holdfast.user_functions import VectorFunction


def embedded(service: Any, texts: list[str]) -> Any:
    return np.concatenate([service([text]) for text in texts]).astype(np.float32)


def test_a_drift_is_one_of_the_form(here: Path, service: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*ON_SERVICE, "--texts", "mine.txt", "--set", "max_share=0.35"]
    assert main([*words, "--as", "dim=8+int8", "--output", "r.json"]) == 0
    assert "as dim=8+int8 on texts all" in capsys.readouterr().out
    result = read_result(here / "r.json")
    (row,) = result["results"]
    assert row["form"] == "dim=8+int8"
    assert row["vectors"]["bytes"] == 8
    assert result["protocol"]["forms"] == ["dim=8+int8"]
    assert row["metrics"]["attacked"] > 5
    originals = [example["original"] for example in result["examples"]]
    fitted = parse_form("dim=8+int8").fitted(embedded(service, originals))
    succeeded = [example for example in result["examples"] if example["outcome"] == "succeeded"]
    assert succeeded
    for example in succeeded:
        pair = normalised(fitted.documents(embedded(service, [example["original"], example["adversarial"]])))
        assert example["after"]["value"] == pytest.approx(float(pair[0] @ pair[1]), abs=2e-5)
        assert example["after"]["value"] < result["protocol"]["goal"]["threshold"]
    assert main([*words, "--output", "plain.json"]) == 0
    capsys.readouterr()
    assert "r.json holds texts all typos as dim=8+int8" in mistake(capsys, ["compare", "plain.json", "r.json"])
    assert main(["compare", "plain.json", "r.json", "--as", "dim=8+int8"]) == 0
    assert "did you mean 'binary'" in mistake(capsys, [*words, "--as", "binry"])


def test_a_form_has_no_gradients(encoder: Any) -> None:
    fitted = parse_form("binary").fitted(encoder.encode(["a dog sleeps", "the cat sings"]))
    target = DriftTarget(encoder, source="e", threshold=0.5, form=fitted)
    assert not target.has_gradients
    assert DriftTarget(encoder, source="e", threshold=0.5).has_gradients
    (unit,) = target.units(["a dog sleeps"])
    np.testing.assert_allclose(np.abs(unit), 1 / np.sqrt(len(unit)))
    np.testing.assert_array_equal(unit > 0, encoder.encode("a dog sleeps") > 0)


def test_queries_are_float_and_the_corpus_is_in_the_form() -> None:
    table = {"a": (0.9, 0.1, 0.2), "b": (0.1, 0.9, -0.4), "c": (-0.5, 0.4, 0.1), "d": (0.3, -0.2, -0.9)}
    query = (0.7, 0.3, -0.5)
    model = VectorFunction(lambda texts: [table.get(text, query) for text in texts], name="table")
    target = RetrievalTarget(model, source="table", corpus=list(table), k=1, form=parse_form("binary"))
    assert not target.has_gradients
    target.prepare([Example(0, ("asked",))])
    (nearest,) = target.read(target.units(["asked"]))
    expected = np.array(query) / np.linalg.norm(query) @ normalised(np.sign(list(table.values()))).T
    order = np.argsort(-expected, kind="stable")[:3]
    np.testing.assert_array_equal(nearest.places, order)
    np.testing.assert_allclose(nearest.cosines, expected[order], atol=1e-5)
    assert target.form is not None
    assert target.form.record() == {"bytes": 1}


@pytest.mark.parametrize("goal", [["--task", "stsb"], ["--texts", "mine.txt", "--goal", "neighbours", "--k", "2"]])
def test_the_other_goals_take_a_form(here: Path, service: Any, goal: list[str]) -> None:
    words = [*ON_SERVICE, *goal, "--set", "max_share=0.35", "--examples", "6", "--as", "uint8", "--output", "r.json"]
    assert main(words) == 0
    result = read_result(here / "r.json")
    assert [row["form"] for row in result["results"]] == ["uint8"]
    assert "calibrated_on" in result["results"][0]["vectors"]
    assert any(row["outcome"] != "skipped" for row in result["examples"])


def test_classes_have_no_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["attack", "call:mine:says", "--task", "textfooler/mnli", "--recipes", "pwws", "--as", "int8"]
    assert "--as int8 is for goals that use vectors, and this is --goal class" in mistake(capsys, words)
    words[1:2] = ["--endpoint", "http://127.0.0.1:9/v1", "--endpoint-model", "m"]
    assert "--goal class needs scores of classes, and endpoint:m gives vectors" in mistake(capsys, words[:-2])
