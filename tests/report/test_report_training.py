"""Training curves, and whether a run was sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_results import train

from holdfast.report.elements import Flag
from holdfast.report.result_sources import ReportSource, read_sources
from holdfast.report.training import curve, dev_charts, flags, run_charts, terms_of


def run(folder: Path, records: list[dict[str, Any]] | None = None, **more: Any) -> ReportSource:
    (source,) = read_sources([train(folder / "run", records=records, **more)])
    return source


def flag(folder: Path, what: str, records: list[dict[str, Any]] | None = None, **more: Any) -> Flag:
    (found,) = [one for one in flags(run(folder, records, **more)) if one.what == what]
    return found


def test_terms_by_name(tmp_path: Path) -> None:
    source = run(tmp_path)
    assert terms_of(source.log) == ["robust", "adversarial"]
    loss, rise = run_charts(source)
    assert [key.name for key in loss.legend] == ["loss", "robust", "adversarial"]
    assert loss.lines[1].points == ((25.0, 0.19), (50.0, 0.095), (75.0, 0.19 / 3))
    assert loss.logarithmic, "terms that differ by more than 50 times"
    assert rise.lines[0].points[0] == (25.0, 0.01)
    assert not rise.logarithmic


def test_a_step_told_twice_counts_once_and_what_is_no_number_not_at_all() -> None:
    records = [{"step": 2, "loss": 3.0}, {"step": 1, "loss": 1.0}, {"step": 2, "loss": 2.0}, {"step": 3, "loss": "NaN"}]
    assert curve(records, "loss") == [(1.0, 1.0), (2.0, 2.0)]


def test_scores_on_the_way_of_all_runs_with_the_kept_step(tmp_path: Path) -> None:
    first, second = read_sources([train(tmp_path / "x"), train(tmp_path / "y")])
    (chart,) = dev_charts([first, second], {"x": "c0", "y": "c1"})
    assert [line.points[0] for line in chart.lines] == [(25.0, 71.0), (25.0, 71.0)]
    assert [(mark.x, mark.shape) for mark in chart.marks if not mark.hollow] == [(50.0, "diamond"), (50.0, "diamond")]
    assert chart.title == "Score while training: stsb dev spearman"


def test_a_sound_run(tmp_path: Path) -> None:
    found = {one.what: one for one in flags(run(tmp_path))}
    assert {name: one.level for name, one in found.items()} == {
        "loss": "good",
        "gradients": "good",
        "attack": "good",
        "δ": "good",
        "selection": "good",
    }
    assert "3 of 3" in found["attack"].message
    assert "90 % of the ball's radius" in found["δ"].message


LOG = {"step": 25, "loss": 0.2, "grad_norm": 0.5, "attack_loss_rise": 0.1, "delta_norm": 0.004}


@pytest.mark.parametrize(
    ("what", "changed", "level", "message"),
    [
        ("loss", {"loss": 0.3}, "look", "did not fall"),
        ("loss", {"loss": float("nan")}, "bad", "not a finite number at step 50"),
        ("gradients", {"grad_norm": 0.0}, "bad", "exactly 0 in 1 of 3 logged steps, first at 50"),
        ("gradients", {"grad_norm": float("inf")}, "bad", "not finite at step 50"),
        ("attack", {"attack_loss_rise": -0.1}, "look", "2 of 3"),
        ("δ", {"delta_norm": 0.0051}, "bad", "leaves the ball"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, what: str, changed: dict[str, float], level: str, message: str) -> None:
    records = [LOG, {**LOG, "step": 50, **changed}, {**LOG, "step": 75, "loss": changed.get("loss", 0.1)}]
    found = flag(tmp_path, what, records)
    assert (found.level, message in found.message) == (level, True), found


def test_an_attack_that_never_raises_the_loss_is_wrong(tmp_path: Path) -> None:
    assert flag(tmp_path, "attack", [{**LOG, "attack_loss_rise": 0.0}]).level == "bad"


def test_an_attack_that_hardly_changes_its_loss_is_worth_a_look(tmp_path: Path) -> None:
    shares = ((25, 0.02), (50, 0.05))
    records = [{**LOG, "step": step, "attack_loss_share": share} for step, share in shares]
    weak = flag(tmp_path, "attack", records)
    assert weak.level == "look"
    assert "3.5 % of the attacked loss: it hardly changes what is trained" in weak.message
    strong = flag(tmp_path, "attack", [{**LOG, "attack_loss_share": 0.4}])
    assert (strong.level, strong.message.endswith("40 % of the attacked loss")) == ("good", True)
    fell = flag(tmp_path, "attack", [{**LOG, "attack_loss_rise": -0.1, "attack_loss_share": -0.5}])
    assert fell.level == "bad", "that the loss fell is worse than a weak attack"


def test_a_perturbation_that_stays_at_the_centre_is_worth_a_look(tmp_path: Path) -> None:
    assert flag(tmp_path, "δ", [{**LOG, "delta_norm": 1e-6}]).level == "look"


def test_learned_negatives_that_stay_are_worth_a_look(tmp_path: Path) -> None:
    assert flag(tmp_path, "learned negatives", [{**LOG, "negatives_turned": 1e-8}]).level == "look"
    assert flag(tmp_path, "learned negatives", [{**LOG, "negatives_turned": 0.9}]).level == "good"


def test_a_regulariser_without_a_share_is_worth_a_look(tmp_path: Path) -> None:
    assert flag(tmp_path, "regulariser", [{**LOG, "gradient_share": 1e-7}]).level == "look"
    assert flag(tmp_path, "regulariser", [{**LOG, "gradient_share": 0.05}]).level == "good"


def test_an_idea_without_a_share_and_views_that_are_lost_are_worth_a_look(tmp_path: Path) -> None:
    assert flag(tmp_path, "idea", [{**LOG, "idea_gradient_share": 1e-4}]).level == "look"
    assert flag(tmp_path, "idea", [{**LOG, "idea_gradient_share": 1.2}]).level == "good"
    lost = flag(tmp_path, "positives", [{**LOG, "views_found": 0.38}])
    assert (lost.level, "38 % of the perturbed views" in lost.message) == ("look", True)
    assert flag(tmp_path, "positives", [{**LOG, "views_found": 0.97}]).level == "good"


def test_the_last_step_kept_is_worth_a_look(tmp_path: Path) -> None:
    selected = {"protocol": "best", "step": 75, "steps": 75, "score": 73.0}
    found = flag(tmp_path, "selection", selected=selected)
    assert (found.level, "the last one" in found.message) == ("look", True)
    assert flag(tmp_path, "selection", selected={**selected, "score": None}).level == "told", "nothing was selected by"
    assert flag(tmp_path, "selection", selected={**selected, "start": selected["score"]}).level == found.level
    worse = flag(tmp_path, "selection", selected={**selected, "start": selected["score"] + 1})
    assert worse.level == "bad"
    assert "made the encoder worse" in worse.message
