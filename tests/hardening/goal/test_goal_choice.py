"""The choice of step and weight on a small encoder whose best weights are known."""

from __future__ import annotations

import copy
import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up import made_up_texts
from rich.console import Console
from sentence_transformers import SentenceTransformer

from holdfast.edits.noise import Noise, noisy
from holdfast.hardening.goal.goal_choice import GoalChoice
from holdfast.hardening.goal.goal_evaluator import INADMISSIBLE, SCORE
from holdfast.hardening.goal.interpolation import weights_of
from holdfast.hardening.goal.mixed_texts import Held
from holdfast.models import load_sentence_transformer
from holdfast.runs.best_weights import KeepBest

UNKNOWN = 1
"""The token of mistyped words, which no clean text has."""


@pytest.fixture
def model(old_encoder: Path) -> SentenceTransformer:
    """An encoder that a mistyped word moves far."""
    model = load_sentence_transformer(str(old_encoder))
    torch.manual_seed(0)
    embeddings(model)[UNKNOWN] = 6.0 * torch.randn(16)
    return model


def embeddings(model: SentenceTransformer) -> Any:
    return model[0].model.get_input_embeddings().weight.data


def choice_of(**given: Any) -> GoalChoice:
    documents = made_up_texts(150, 8, 5)
    asked = made_up_texts(120, 4, 6)
    held = Held(documents, list(range(0, 140, 2)), list(range(1, 140, 2)), asked[::2], asked[1::2])
    return GoalChoice(held, [Noise("typing", 0.4)], **given)


def prepared(model: SentenceTransformer, **given: Any) -> tuple[GoalChoice, Any]:
    choice = choice_of(**given)
    return choice, choice.prepare(model, precision="fp32", max_seq_length=None, console=None)


def cured(model: SentenceTransformer, length: float = 1.0) -> None:
    """Make the encoder read a mistyped word as nothing in particular; layer norm removes most of the length."""
    embeddings(model)[UNKNOWN] = length * embeddings(model)[5:].mean(dim=0)


def destroyed(model: SentenceTransformer) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()


def same(model: SentenceTransformer, weights: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_an_improvement_is_kept(model: SentenceTransformer, tmp_path: Path) -> None:
    choice, evaluator = prepared(model)
    metrics = evaluator(model, steps=1)
    assert metrics[SCORE] == metrics["goal_recovered"] == 0.0
    assert metrics["goal_clean_change"] == 0.0
    before = metrics["goal_texts_typing"]
    cured(model)
    metrics = evaluator(model, steps=2)
    assert metrics[SCORE] == metrics["goal_recovered"] > 5.0
    assert metrics["goal_texts_typing"] > before
    assert "recovered" in choice.shown({f"eval_{name}": value for name, value in metrics.items()})
    found = choice.choose(model, KeepBest(tmp_path, choice.metric), 2)
    selected, rows = found["selected"], {row["split"]: row for row in found["old_index"]}
    assert selected["step"] == 2
    assert [(each["step"], each["weight"]) for each in selected["curve"]] == [(2, w) for w in (0.25, 0.5, 0.75, 1.0)]
    chosen = next(each for each in selected["curve"] if each["weight"] == selected["weight"])
    assert selected["recovered"] == chosen["recovered"] == max(each["recovered"] for each in selected["curve"])
    assert selected["line"].startswith("step 2")
    assert list(rows) == ["clean", "typing", "queries typing"]
    assert rows["clean"]["metrics"]["difference"] == 0.0
    typing = rows["typing"]["metrics"]
    assert typing["after"] - typing["before"] == pytest.approx(typing["difference"])
    assert typing["difference_low"] <= typing["difference"] <= typing["difference_high"]
    assert rows["queries typing"]["metrics"]["difference"] > 0.0
    assert rows["clean"]["metrics"]["cosine"] == pytest.approx(1.0, abs=1e-5)
    assert rows["clean"]["metrics"]["same_top1"] == rows["clean"]["metrics"]["same_top10"] == 100.0
    assert rows["typing"]["n"] == 70


def test_the_weights_that_are_kept_are_those_that_were_measured(model: SentenceTransformer, tmp_path: Path) -> None:
    choice, evaluator = prepared(model, weights=(0.5,))
    at_start = embeddings(model)[UNKNOWN].clone()
    cured(model, 100.0)
    at_end = embeddings(model)[UNKNOWN].clone()
    selected = choice.choose(model, KeepBest(tmp_path, choice.metric), 9)["selected"]
    assert (selected["step"], selected["weight"]) == (9, 0.5)
    assert torch.allclose(embeddings(model)[UNKNOWN], (at_start + at_end) / 2)
    found = evaluator(model, steps=9)
    assert found["goal_recovered"] == pytest.approx(selected["recovered"])


def test_where_nothing_is_better_the_original_is_kept(model: SentenceTransformer, tmp_path: Path) -> None:
    choice, evaluator = prepared(model)
    original = weights_of(model)
    destroyed(model)
    metrics = evaluator(model, steps=3)
    assert metrics[SCORE] < -INADMISSIBLE / 2
    found = choice.choose(model, KeepBest(tmp_path, choice.metric), 3)
    assert found["selected"]["step"] == 0
    assert found["selected"]["weight"] == 0.0
    assert found["selected"]["line"].startswith("the original encoder is kept, unchanged: ")
    assert "recovered" not in found["selected"]
    assert same(model, original)
    for row in found["old_index"]:
        assert row["metrics"]["before"] == row["metrics"]["after"], row["split"]


def test_a_group_that_is_left_out_is_said(model: SentenceTransformer) -> None:
    lines = io.StringIO()
    choice = choice_of()
    assert choice.held is not None
    choice.held = dataclasses.replace(choice.held, choosing_queries=choice.held.choosing_queries[:9])
    evaluator = choice.prepare(model, precision="fp32", max_seq_length=None, console=Console(file=lines, width=300))
    assert "choosing the weights: queries are left out: of 9 only " in lines.getvalue()
    assert not any("queries" in name for name in evaluator(model, steps=1))


def test_the_best_step_is_measured_beside_the_last(model: SentenceTransformer, tmp_path: Path) -> None:
    choice, _ = prepared(model, weights=(1.0,))
    best = KeepBest(tmp_path, choice.metric)
    good = copy.deepcopy(model)
    cured(good)
    best.step, best.restore = 4, lambda own: own.load_state_dict(good.state_dict())  # type: ignore[method-assign,assignment]
    destroyed(model)
    selected = choice.choose(model, best, 9)["selected"]
    assert selected["step"] == 4
    assert [each["step"] for each in selected["curve"]] == [4, 9]
    assert same(model, dict(good.state_dict()))


def test_noise_that_costs_nothing_keeps_the_original(model: SentenceTransformer, tmp_path: Path) -> None:
    choice = choice_of()
    choice.noise = [Noise("case.upper", 1.0)]  # the encoder lowers the case of all texts
    choice.prepare(model, precision="fp32", max_seq_length=None, console=None)
    selected = choice.choose(model, KeepBest(tmp_path, choice.metric), 1)["selected"]
    assert selected["step"] == 0
    assert "noise costs the original less than a point" in selected["line"]
    assert "noise costs nothing" in choice.shown({"eval_goal_clean_change": 0.0})


def test_systems_are_measured_before_both_encoders(model: SentenceTransformer, tmp_path: Path) -> None:
    asked = made_up_texts(120, 4, 6)
    right = dict(zip(noisy(asked, "typing", 0.4, 0), asked, strict=True))
    choice, _ = prepared(model, systems=lambda: {"corrected": lambda text: right.get(text, text)})
    cured(model)
    shown = io.StringIO()
    choice._console = Console(file=shown, width=300)
    rows = choice.choose(model, KeepBest(tmp_path, choice.metric), 1)["old_index"]
    for stage in (
        "measuring the original encoder on the rest of the hold-out",
        "corrected: correcting the queries: 0/260 texts",
        "measuring the original encoder behind corrected on the rest of the hold-out",
        "measuring the kept encoder behind corrected on the rest of the hold-out",
    ):
        assert f"\n{stage}\n" in f"\n{shown.getvalue()}", stage
    of_system = {row["split"]: row["metrics"] for row in rows if row.get("system") == "corrected"}
    assert list(of_system) == ["clean, corrected", "typing, corrected", "queries typing, corrected"]
    plain = {row["split"]: row["metrics"] for row in rows if "system" not in row}
    for when in ("before", "after"):
        assert of_system["queries typing, corrected"][when] == 100.0
        assert plain["queries typing"][when] < 100.0
        assert of_system["typing, corrected"][when] == plain["typing"][when]  # parts of texts have no correction


def test_a_process_that_measures_nothing_still_has_an_evaluator() -> None:
    choice = GoalChoice(None, [Noise("typing", 0.4)])
    evaluator = choice.prepare(None, precision="fp32", max_seq_length=None, console=None)  # type: ignore[arg-type]
    assert evaluator.goal is None
    assert choice.record() == {"noise": ["typing=0.4"], "evaluations": 5}
