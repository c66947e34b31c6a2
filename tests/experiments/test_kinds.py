"""Cells of every kind besides trainings, classifiers and attacks: baselines, evaluations, closer looks, distances."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from holdfast.attacks.resource_names import LIGHT
from holdfast.errors import UserError
from holdfast.experiments import cell_execution, inspections
from holdfast.experiments.cell_execution import do
from holdfast.experiments.cell_planning import Planner, Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.render import markdown
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.models import load_sentence_transformer
from holdfast.results import new_result, read_result, write_result

Settings = Callable[..., ReproduceSettings]

TABLE = """\
title: Kinds
source: a test
digits: 3
rows:
  encoder:
    GloVe: {encoder: {baseline: glove}}
    mean: {encoder: {baseline: mean}}
    whitening: {encoder: {baseline: whitening, dimensions: 2}}
    USE: {not_run: "quoted: no code"}
columns:
  STS-B: {evaluation: {tasks: stsb-dev, limit: 20}, measure: stsb/dev.spearman, digits: 1}
  park: {inspection: &pairs {kind: similarity, texts: [[a dog runs, a dog runs], [a dog runs, child plays]]},
         measure: similarity/1.similarity}
  child: {inspection: *pairs, measure: similarity/2.similarity}
averages:
  Mean: [park, child]
published:
  USE: [74.92, null, null, 3.5]
  mean: [50, null, null, null]
"""


def test_baselines_are_made_and_measured(settings: Settings, stsb: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    words = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()
    vectors.write_text("\n".join(f"{word} {n % 5} {n % 3} 1" for n, word in enumerate(words)) + "\n")
    result = reproduce(settings(TABLE, vectors=vectors))
    rows = {(row["task"], row["split"]): row for row in result["results"]}
    for name in ("GloVe", "mean", "whitening"):
        assert rows[name, "STS-B"]["metrics"].keys() == {"mean"}, rows[name, "STS-B"]["not_run"]
        assert rows[name, "STS-B"]["sample"]["of"] == 56
        assert rows[name, "park"]["metrics"]["mean"] == pytest.approx(5.0, abs=1e-5)
    made = (tmp_path / "out" / "cells").glob("baseline-*/cell.json")
    said = {cell["settings"]["name"]: cell for cell in map(json.loads, (path.read_text() for path in made))}
    assert set(said) == {"glove", "mean", "whitening"}
    assert said["whitening"]["settings"]["dimensions"] == 2
    assert said["whitening"]["settings"]["corpus"]["parts"]
    assert not said["glove"]["inputs"]
    assert rows["USE", "STS-B"]["not_run"] == ["quoted: no code"]
    text = markdown(result)
    assert "| USE | not run (74.92) | not run | not run | not run (3.500) |" in text
    assert "3 values were measured on random samples of test sets (of up to 56 rows)" in text
    ours = rows["mean", "STS-B"]["metrics"]["mean"]
    assert f"{ours:.1f} (50.0, {ours - 50:+.1f})".replace("-", "−") in text
    assert f"| {rows['mean', 'child']['metrics']['mean']:.3f} |" in text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "cells").glob("*/cell.json")}
    assert len(before) == 9  # three baselines; two evaluations or closer looks at each
    again = reproduce(settings(TABLE, vectors=vectors))
    assert [row["metrics"] for row in again["results"]] == [row["metrics"] for row in result["results"]]
    assert before == {path: path.stat().st_mtime_ns for path in before}  # nothing was made anew
    again = reproduce(settings(TABLE))  # without the vectors
    (glove,) = (row for row in again["results"] if (row["task"], row["split"]) == ("GloVe", "park"))
    assert glove["not_run"] == ["the baseline glove needs word vectors: give --vectors FILE"]


def test_what_no_seed_changes_is_one_value_without_a_spread(settings: Settings, stsb: Path) -> None:
    table = TABLE.replace("GloVe: {encoder: {baseline: glove}}", "as it is: {encoder: {method: none}}")
    result = reproduce(settings(table, seeds=3))
    rows = {(row["task"], row["split"]): row for row in result["results"]}
    for name, count in (("as it is", 1), ("mean", 1), ("whitening", 3)):
        for column in ("STS-B", "park", "Mean"):
            row = rows[name, column]
            assert (row["n"], len(row["values"])) == (count, count)
            assert len(row["cells"]) == (0 if column == "Mean" else count)
            assert row["metrics"].keys() == ({"mean", "std"} if count > 1 else {"mean"})
    text = markdown(result)
    (line,) = (line for line in text.splitlines() if line.startswith("| mean |"))
    assert "±" not in line
    assert "8 values do not depend on the seed: they come from one run and have no ±." in text
    once = reproduce(settings(table))
    assert once["results"][0]["values"] == result["results"][0]["values"]
    assert "do not depend on the seed" not in markdown(once)


@pytest.fixture
def planner(tmp_path: Path, settings: Settings) -> Planner:
    given = settings()
    scale = {"baseline": {"sentences": 5}}
    return Planner(Setting(given.model, given.corpus, given.data, given.resources, {}, scale))


def test_what_decides_a_baseline(planner: Planner) -> None:
    def cell(says: dict[str, Any], seed: int = 1) -> Cell:
        made = planner.plan({"encoder": says}, seed)
        assert made.kind == "baseline"
        return made

    mean, whitening, flow = (cell({"baseline": name}) for name in ("mean", "whitening", "flow"))
    assert "sentences" not in mean.settings
    assert whitening.settings["sentences"] == flow.settings["sentences"] == 5  # the scale's
    assert cell({"baseline": "mean"}, seed=2).key == mean.key  # nothing is drawn
    assert cell({"baseline": "whitening"}, seed=2).key != whitening.key
    assert cell({"baseline": "whitening", "sentences": 6}).key != whitening.key
    assert cell({"baseline": "flow", "options": {"levels": 3}}).key == flow.key  # a default
    assert cell({"baseline": "flow", "options": {"levels": 2}}).key != flow.key
    for says, why in (
        ({"baseline": "means"}, r"'means'.*did you mean 'mean'"),
        ({"baseline": "mean", "dimension": 2}, r"unknown key 'dimension' \(did you mean 'dimensions'"),
        ({"baseline": "glove"}, "give --vectors FILE"),
    ):
        with pytest.raises(UserError, match=why):
            cell(says)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"metod": "simcse"}, r"encoder: unknown key 'metod' \(did you mean 'method'"),
        ({"method": "none", "max_stepz": 4}, r"encoder: unknown key 'max_stepz' \(did you mean 'max_steps'"),
        ({"method": "simcse", "from": {"max_stepz": 4}}, "encoder: unknown key 'max_stepz'"),
        ({"method": "simcse", "vectors": "folder"}, "encoder: unknown key 'vectors'"),
    ],
)
def test_an_encoder_without_training_has_known_keys_too(planner: Planner, says: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        planner.plan({"encoder": says}, 1)


def test_a_file_of_an_option_decides_and_not_its_name(planner: Planner, tmp_path: Path, masked_lm: Path) -> None:
    def cell(**options: Any) -> Cell:
        return planner.plan({"encoder": {"method": "adcl", "options": {"source": "masked-lm", **options}}}, 1)

    shutil.copytree(masked_lm, tmp_path / "elsewhere" / "lm")
    first, moved = (cell(masked_lm=str(path)) for path in (masked_lm, tmp_path / "elsewhere" / "lm"))
    assert first.key == moved.key != cell().key
    assert moved.where["masked_lm"] == str(tmp_path / "elsewhere" / "lm")
    away = cell(masked_lm="an/unknown-model")
    assert away.settings["options"]["masked_lm"] == away.settings["option_files"]["masked_lm"] == "an/unknown-model"
    (tmp_path / "elsewhere" / "lm" / "config.json").write_text("{}")
    planner.identity._models.clear()
    assert cell(masked_lm=str(tmp_path / "elsewhere" / "lm")).key != first.key


def test_what_decides_an_evaluation_and_a_look(planner: Planner) -> None:
    def key(**says: Any) -> str:
        return planner.plan({"encoder": {"baseline": "mean"}, **says}, 1).key

    plain = key(evaluation={"tasks": "stsb-dev"})
    assert key(evaluation={"tasks": "stsb"}) != plain
    assert key(evaluation={"tasks": "stsb-dev", "limit": 5}) != plain
    assert key(evaluation={"tasks": "stsb-dev", "limit": None}) == plain
    hard: dict[str, Any] = {"kind": "hard-positives", "texts": ["a"], "options": {"source": "masked-lm"}}
    assert key(inspection=hard) != key(inspection={**hard, "options": {**hard["options"], "candidates": 5}})
    look = {"kind": "similarity", "texts": [["a", "b"]]}
    assert key(inspection=look) != key(inspection={**look, "texts": [["a", "c"]]})
    for says, why in (
        ({"inspection": {"kind": "similar", "texts": ["a"]}}, "'similar'.*did you mean 'similarity'"),
        ({"inspection": {"kind": "masks"}}, "an inspection needs texts"),
        ({"inspection": {**look, "text": "a"}}, "'text'.*did you mean 'texts'"),
        ({"evaluation": {"limit": "few"}}, "evaluation: limit takes a whole number"),
        ({"evaluation": {"tasks": ""}}, "names no task"),
    ):
        with pytest.raises(UserError, match=why):
            key(**says)


def test_an_attack_without_a_recipe_is_none(planner: Planner) -> None:
    says = {"encoder": {"method": "none"}, "classifier": {"task": "sst2"}}
    assert planner.plan({**says, "attack": {"examples": 7}}, 1).key == planner.plan(says, 1).key


def test_a_classifier_that_is_measured_whole_keeps_its_name(planner: Planner) -> None:
    says = {"encoder": {"method": "none"}, "classifier": {"task": "sst2"}}
    cell = planner.plan(says, 1)
    assert "test_examples" not in cell.settings
    cut = planner.plan({**says, "classifier": {"task": "sst2", "test_examples": 4}}, 1)
    assert cut.settings["test_examples"] == 4
    assert cut.key != cell.key


def test_distances_in_another_space(planner: Planner, tmp_path: Path, settings: Settings) -> None:
    said = {"encoder": {"method": "none"}, "classifier": {"task": "sst2"}, "attack": {"recipe": "typos"}}
    cell = planner.plan({**said, "distances_in": {"encoder": {"method": "simcse"}, "pairs": 3}}, 1)
    assert cell.kind == "distances"
    assert cell.settings == {"pairs": 3, "outcome": "succeeded", "seed": 1}
    assert cell.inputs["texts"].key == planner.plan(said, 1).key
    assert cell.inputs["within"].kind == "classifier"
    assert [taken.kind for taken in cell.inputs["within"].inputs.values()] == ["encoder"]
    # Made with texts that are there, in an encoder's space.
    start = planner.plan({"encoder": {"method": "none"}}, 1)
    made = Cell(
        "distances", {"pairs": 3, "outcome": "succeeded", "seed": 1}, {"texts": Cell("attack", {}), "within": start}
    )
    store = Store(tmp_path / "cells")
    texts = ["a dog runs", "child plays", "the child sings", "a man runs", "a cat eats"]
    attacked = new_result("attack", model="x", identity={"model_sha256": "", "model_files": {}}, protocol={}, seed=1)
    attacked["examples"] = [
        {"recipe": "typos", "outcome": "succeeded", "original": text, "adversarial": f"{text} in the park", "label": 1}
        for text in texts
    ]
    write_result(store.product(made.inputs["texts"]), attacked)
    given = Setting(settings().model, None, None)
    do(made, store, given, Console(quiet=True), ["holdfast"])
    result = read_result(store.product(made))
    metrics = result["results"][0]["metrics"]
    assert metrics["delta"] == pytest.approx(metrics["d_neg"] - metrics["d_pos"])
    assert result["results"][0]["n"] == 5
    assert result["coordinates"]["n"] == 3


def test_a_warm_up_is_a_part_of_a_training_only_where_it_is_given(planner: Planner) -> None:
    """Cells from before the setting existed keep their names."""
    plain = planner.plan({"encoder": {"method": "simcse"}}, 1)
    warmed = planner.plan({"encoder": {"method": "simcse", "warmup_share": 0.1}}, 1)
    assert "warmup_share" not in plain.settings
    assert warmed.settings == {**plain.settings, "warmup_share": 0.1}


def work_on(cell: Cell, settings: Settings, tmp_path: Path, **inputs: Path) -> cell_execution.Work:
    given = settings()
    setting = Setting(given.model, given.corpus, given.data, given.resources)
    return cell_execution.Work(cell, tmp_path / "made" / "model", inputs, setting, Console(quiet=True), ["holdfast"])


def test_in_domain_texts_are_those_that_are_trained_on_alone(settings: Settings, data: Path, tmp_path: Path) -> None:
    def texts(split: str) -> set[str]:
        lines = (data / "sst2" / f"{split}.tsv").read_text().splitlines()[1:]
        return {line.partition("\t")[0] for line in lines}

    cell = Cell("encoder", {"seed": 1}, where={"corpus": "task:sst2"})
    path = Path(cell_execution._corpus(work_on(cell, settings, tmp_path)))
    made = [json.loads(line)["sentence"] for line in path.read_text().splitlines()]
    assert sorted(made) == sorted(texts("train") - texts("dev") - texts("test"))


def test_adversarial_texts_and_seed_reach_the_fine_tuning(
    planner: Planner, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = {"task": "sst2", "adversarial_texts": {"recipe": "typos", "examples": 3}}
    cell = planner.plan({"encoder": {"method": "none"}, "classifier": classifier}, 7)
    asked: list[Any] = []
    monkeypatch.setattr("holdfast.classifiers.finetune", lambda run, **_: asked.append(run))
    cell_execution._finetune(
        work_on(cell, settings, tmp_path, encoder=tmp_path / "encoder", texts=tmp_path / "texts.json")
    )
    (run,) = asked
    assert (run.model, run.adversarial_texts) == (str(tmp_path / "encoder"), str(tmp_path / "texts.json"))
    assert (run.seed, run.task) == (7, "sst2")


def test_a_training_attack_gets_the_file_of_its_synonyms(
    settings: Settings, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = tmp_path / "near.tsv"
    lists.write_text("word\tneighbors\ndog\tcat\n")
    names = replace(LIGHT, synonyms=str(lists), masked_lm=str(settings().model))
    setting = Setting(str(settings().model), str(tmp_path / "corpus.txt"), data, names)
    (tmp_path / "corpus.txt").write_text("a dog runs\n")
    planner = Planner(setting)
    tuned = planner.plan({"encoder": {"method": "none"}, "classifier": {"task": "sst2", "defence": "adv"}}, 1)
    trained = planner.plan({"encoder": {"method": "adcl", "max_steps": 2}, "classifier": {"task": "sst2"}}, 1)
    asked: list[Any] = []
    monkeypatch.setattr("holdfast.classifiers.finetune", lambda run, **_: asked.append(run))
    monkeypatch.setattr("holdfast.training.training_run.train", lambda run, **_: asked.append(run))
    cell_execution._finetune(work_on(tuned, settings, tmp_path, encoder=tmp_path / "encoder"))
    encoder = trained.inputs["encoder"]
    cell_execution._train(work_on(encoder, settings, tmp_path, start=tmp_path / "start"))
    assert [run.options["word_vectors"] for run in asked] == [str(lists)] * 2
    assert asked[0].options["masked_lm"] == str(settings().model)


def test_an_evaluation_reads_the_text_that_it_is_told(
    planner: Planner, settings: Settings, stsb: Path, tmp_path: Path
) -> None:
    (stsb / "stsb" / "test.tsv").write_text((stsb / "stsb" / "dev.tsv").read_text())
    lines = (stsb / "stsb" / "dev.tsv").read_text().splitlines()
    (stsb / "stsb" / "test_senteval.tsv").write_text("\n".join(lines[:31]) + "\n")
    cell = planner.plan({"encoder": {"method": "none"}, "evaluation": {"tasks": "stsb", "text": "senteval"}}, 1)
    made = work_on(cell, settings, tmp_path, encoder=Path(str(settings().model)))
    cell_execution._evaluate(made)
    assert read_result(made.output)["results"][0]["n"] == 30


def test_similarities_are_on_peoples_scale(masked_lm: Path) -> None:
    encoder = load_sentence_transformer(str(masked_lm))
    pairs = [["a dog runs", "a dog runs"], ["a dog runs", "the child sings in the park"]]
    same, other = inspections.similarities(encoder, pairs)
    assert same["metrics"]["similarity"] == pytest.approx(5.0, abs=1e-5)
    vectors = encoder.encode(pairs[1]).astype(np.float64)
    cosine = vectors[0] @ vectors[1] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1])
    assert other["metrics"]["cosine"] == pytest.approx(cosine, abs=1e-5)
    assert other["metrics"]["similarity"] == pytest.approx(5.0 * max(0.0, cosine), abs=1e-4)
    assert (same["split"], other["split"]) == ("1", "2")


def test_masks_are_told_in_words(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> None:
    folder = make_masked_lm(tmp_path / "three", layers=3)
    encoder = load_sentence_transformer(str(folder))
    rows = inspections.masks(encoder, folder, ["the old man sleeps", "a dog runs"], seed=1)
    assert [row["split"] for row in rows] == ["layer 0", "layer 1", "layer 2"]
    assert all(0.0 <= row["metrics"]["weakened_tokens"] <= 100.0 for row in rows)
    assert [line[:7] for line in rows[0]["told"]] == ["view 1:", "view 2:"] * 2
    message = " ".join(line for row in rows for line in row["told"])
    assert "‹" in message
    assert message.replace("‹", "").replace("›", "").count("sleeps") == 6
    assert inspections.masks(encoder, folder, ["the old man sleeps", "a dog runs"], seed=1) == rows


def test_hard_positives_are_other_texts(masked_lm: Path) -> None:
    encoder = load_sentence_transformer(str(masked_lm))
    modes = [module.training for module in encoder.modules()]
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    texts = ["the old man sleeps on the big red bed in the house", "a dog runs"]
    options = {"masked_lm": str(masked_lm), "min_similarity": -1.0}
    rows = inspections.hard_positives(encoder, texts, options=options, seed=1)
    assert [row["metrics"]["words"] for row in rows] == [12.0, 3.0]
    assert 1.0 <= rows[0]["metrics"]["changed"] <= 2.0  # at most a fifth of the words
    assert rows[1]["told"] == ["a dog runs"]  # three words are too few for one
    changed = sum(a != b for a, b in zip(texts[0].split(), rows[0]["told"][0].split(), strict=True))
    assert changed == rows[0]["metrics"]["changed"]
    assert all(bool((value == before[name]).all()) for name, value in encoder.state_dict().items())
    assert [module.training for module in encoder.modules()] == modes


def test_what_is_no_number_stands_beside_the_value() -> None:
    from holdfast.experiments.definition import read_definition
    from holdfast.experiments.table_rows import Entry, _extras

    plane = {"points": []}
    rows = [{"task": "space-attacked", "split": "attacked", "n": 5, "metrics": {"d_pos": 1.0}, "told": ["a line"]}]
    result = {"results": rows, "coordinates": plane}
    figure, table = (read_definition(name, "smoke") for name in ("adcl/figure3", "adcl/table4"))
    entry = Entry(figure.rows[0], "d_pos", "d_pos", 1, [])
    assert _extras(figure, entry, result) == {"told": ["a line"], "coordinates": plane}
    assert _extras(table, entry, result) == {"told": ["a line"]}  # a table draws no planes
    assert _extras(table, Entry(figure.rows[0], "x", "sts", 1, []), {"results": []}) == {}


def test_a_teacher_may_be_a_baseline_at_a_scale_with_settings_of_encoders(settings: Settings) -> None:
    given = settings()
    scale = {"encoder": {"evaluations": 1}}
    planner = Planner(Setting(given.model, given.corpus, given.data, given.resources, {}, scale))
    cell = planner.plan({"encoder": {"method": "rankcse", "teacher": {"baseline": "whitening"}}}, 1)
    assert cell.inputs["teacher"].kind == "baseline"
