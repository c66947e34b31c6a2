"""From what a table says to cells: what changes a cell's name, and what does not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast import precision
from holdfast.attacks.resource_names import ResourceNames
from holdfast.errors import UserError
from holdfast.experiments import cell_execution, cell_planning, stage_settings
from holdfast.experiments.cell_planning import Planner, Setting
from holdfast.experiments.cells import Cell
from holdfast.experiments.input_hashes import Identities
from holdfast.training.method_options import objective_class, option_defaults

SAYS: dict[str, Any] = {
    "encoder": {"method": "robustembed", "max_steps": 5},
    "classifier": {"task": "sst2"},
    "attack": {"recipe": "textfooler", "examples": 4},
}


@pytest.fixture
def setting(tmp_path: Path, data: Path, make_masked_lm: Callable[..., Path]) -> Setting:
    model = make_masked_lm(tmp_path / "tiny")
    (tmp_path / "corpus.txt").write_text("a dog runs\n")
    (data / "synonyms").mkdir(exist_ok=True)
    (data / "synonyms" / "counterfitted_neighbors.tsv").write_text("word\tneighbors\ndog\tcat\n")
    names = ResourceNames("neighbours", "wordnet", "textblob", str(model), str(model))
    return Setting(str(model), str(tmp_path / "corpus.txt"), data, names)


def keys(cell: Cell) -> dict[str, str]:
    return {needed.kind: needed.key for needed in cell.needed()}


def changed(setting: Setting, says: dict[str, Any], seed: int = 1, other: Setting | None = None) -> set[str]:
    """The kinds of cells that have another name than those of SAYS."""
    before, after = keys(Planner(setting).plan(SAYS, 1)), keys(Planner(other or setting).plan(says, seed))
    assert set(before) == set(after)
    return {kind for kind in before if before[kind] != after[kind]}


def with_(stage: str, **more: Any) -> dict[str, Any]:
    return {**SAYS, stage: {**SAYS[stage], **more}}


def test_the_stages_are_there_in_order(setting: Setting) -> None:
    cells = list(Planner(setting).plan(SAYS, 1).needed())
    assert [cell.kind for cell in cells] == ["model", "encoder", "classifier", "attack"]
    encoder, classifier, attack = cells[1:]
    assert encoder.settings["options"]["steps" if "steps" in encoder.settings["options"] else "pgd_steps"]
    assert classifier.settings["task"] == "sst2"
    assert attack.settings["constants"]["candidates"] == 50
    assert attack.label == "textfooler against robustembed, seed 1 on sst2 (none)"


def test_a_changed_hyper_parameter_changes_what_depends_on_it(setting: Setting) -> None:
    everything = {"encoder", "classifier", "attack"}
    assert changed(setting, SAYS) == set()
    assert changed(setting, with_("encoder", learning_rate=1e-5)) == everything
    assert changed(setting, with_("encoder", options={"gamma": 0.1})) == everything
    assert changed(setting, with_("classifier", defence="none", epochs=2)) == {"classifier", "attack"}
    assert changed(setting, with_("attack", constants={"candidates": 20})) == {"attack"}
    assert changed(setting, SAYS, seed=2) == everything


def test_a_default_that_is_written_out_changes_nothing(setting: Setting) -> None:
    assert changed(setting, with_("encoder", options={"gamma": 1 / 128}, max_length=32)) == set()
    assert changed(setting, with_("classifier", defence="none", epochs=3)) == set()
    assert changed(setting, with_("attack", constants={"candidates": 50}, goal="auto")) == set()


@pytest.fixture
def fast_in_bf16(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[bool]]:
    """``fast_in_bf16(yes)``: the machine has it, or not; what is returned grows as often as it is asked."""

    def machine(has: bool) -> list[bool]:
        asked: list[bool] = []
        monkeypatch.setattr(precision, "bf16_is_fast", lambda device: asked.append(has) or has)
        return asked

    return machine


def test_cells_of_two_precisions_are_two(setting: Setting, fast_in_bf16: Callable[[bool], list[bool]]) -> None:
    fast_in_bf16(False)
    slow = Planner(setting).plan(SAYS, 1)
    written = {stage: {**SAYS[stage], "precision": "fp32"} for stage in ("encoder", "classifier", "attack")}
    assert keys(Planner(setting).plan(written, 1)) == keys(slow), "what auto means is what is there"
    asked = fast_in_bf16(True)
    fast = Planner(setting).plan(SAYS, 1)
    assert len(asked) == 1
    for cells, name in ((slow, "fp32"), (fast, "bf16")):
        assert [cell.settings.get("precision") for cell in cells.needed()] == [None, name, name, name]
    alone = {cell.kind: replace(cell, inputs={}).key for cell in slow.needed()}
    assert {c.kind for c in fast.needed() if replace(c, inputs={}).key != alone[c.kind]} == {*written}
    assert keys(Planner(setting).plan(written, 1)) == keys(slow), "a table can say it"


def test_a_plan_asks_no_device_where_every_cell_names_its_precision(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    monkeypatch.setattr(cell_planning, "auto_here", lambda: pytest.fail("asked"))
    says = {stage: {**SAYS[stage], "precision": "fp32"} for stage in ("encoder", "classifier", "attack")}
    Planner(setting).plan(says, 1)
    Planner(setting).plan({"encoder": {"baseline": "mean"}, "evaluation": {"tasks": "sst2"}}, 1)
    smart = with_("classifier", defence="smart", precision="auto")  # whose measure would be lost in bf16
    encoder = Planner(setting).plan({**smart, "encoder": {"method": "none"}, "attack": {}}, 1)
    assert encoder.settings["precision"] == "fp32"


def test_sentences_become_steps(setting: Setting) -> None:
    says = with_("encoder", sentences=257, batch_size=64)
    (encoder,) = (cell for cell in Planner(setting).plan(says, 1).needed() if cell.kind == "encoder")
    assert encoder.settings["max_steps"] == 5


def test_as_many_evaluations_at_every_batch_size(setting: Setting) -> None:
    for batch_size, more, steps in ((64, {}, 13), (512, {}, 2), (64, {"eval_steps": 7}, 7)):
        says = with_("encoder", sentences=6400, batch_size=batch_size, evaluations=8, **more)
        (encoder,) = (cell for cell in Planner(setting).plan(says, 1).needed() if cell.kind == "encoder")
        assert encoder.settings["eval_steps"] == steps
    with pytest.raises(UserError, match="encoder: evaluations must be from 1 to 1000000, got 0"):
        Planner(setting).plan(with_("encoder", sentences=6400, evaluations=0), 1)
    with pytest.raises(UserError, match="encoder: sentences takes a whole number, not 'many'"):
        Planner(setting).plan(with_("encoder", sentences="many"), 1)


def test_files_count_and_not_where_they_lie(setting: Setting, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.txt"
    other.write_text("a dog runs\n")
    assert changed(setting, SAYS, other=replace(setting, corpus=str(other))) == set()
    other.write_text("a cat runs\n")
    assert changed(setting, SAYS, other=replace(setting, corpus=str(other))) == {"encoder", "classifier", "attack"}
    before = keys(Planner(setting).plan(SAYS, 1))
    test = tmp_path / "data" / "sst2" / "test.tsv"
    test.write_text(test.read_text() + "one more dog\t1\n")
    after = keys(Planner(setting).plan(SAYS, 1))
    assert {kind for kind in before if before[kind] != after[kind]} == {"classifier", "attack"}


def test_raw_files_count_where_a_task_has_no_other_texts(setting: Setting) -> None:
    hashes = Identities(setting.data)
    before = hashes.task("sst2", "senteval")
    assert before["files"]
    assert before == hashes.task("sst2", "raw")


def test_only_the_resources_that_a_recipe_needs_count(setting: Setting) -> None:
    names = setting.resources
    assert changed(setting, SAYS, other=replace(setting, resources=replace(names, tagger="nltk"))) == {"attack"}
    assert changed(setting, SAYS, other=replace(setting, resources=replace(names, wordnet="/x"))) == set()


def test_the_pairs_that_scale_an_encoders_scores_count(setting: Setting, data: Path) -> None:
    """Cosines of attacks on STS12 are mapped to scores by STS-B's pairs; those of a classifier's texts are not."""
    attack = {"encoder": {"method": "none"}, "attack": {"recipe": "typos", "task": "sts12", "split": "test"}}
    pairs = "score\tsentence1\tsentence2\n2.0\tone\ttwo\n"
    for task, split in (("sts12", "test"), ("stsb", "dev")):
        (data / task).mkdir(exist_ok=True)
        (data / task / f"{split}.tsv").write_text(pairs)
    before = [Planner(setting).plan(says, 1).key for says in (attack, SAYS)]
    (data / "stsb" / "dev.tsv").write_text(f"{pairs}3.0\tone\tthree\n")
    after = [Planner(setting).plan(says, 1).key for says in (attack, {**SAYS})]
    assert after[0] != before[0]


def test_what_selects_counts(setting: Setting, data: Path) -> None:
    says = {"encoder": {"method": "simcse", "max_steps": 5}}

    def encoder() -> Cell:
        return Planner(setting).plan(says, 1)

    without = encoder()
    assert without.settings["selection"] == "last"
    assert "selected_on" not in without.settings
    (data / "stsb").mkdir()
    (data / "stsb" / "dev.tsv").write_text("sentence1\tsentence2\tscore\na dog\ta cat\t2.0\n")
    chosen = encoder()
    assert chosen.settings["selection"] == "stsb-dev"
    (data / "stsb" / "dev.tsv").write_text("sentence1\tsentence2\tscore\na dog\ta cat\t3.0\n")
    assert len({without.key, chosen.key, encoder().key}) == 3
    says["encoder"]["selection"] = "last"
    assert encoder().key == without.key


def test_a_preset_is_what_it_says(setting: Setting) -> None:
    preset = Planner(setting).plan({"encoder": {"method": "v-advcse", "max_steps": 5, "preset": "paper"}}, 1)
    options = dict(objective_class("v-advcse").PRESETS["paper"])
    written = Planner(setting).plan({"encoder": {"method": "v-advcse", "max_steps": 5, "options": options}}, 1)
    default = Planner(setting).plan({"encoder": {"method": "v-advcse", "max_steps": 5}}, 1)
    assert preset.key == written.key != default.key


@pytest.mark.parametrize("resource", ["synonyms", "masked_lm", "similarity", "calibration", "wordnet"])
def test_what_is_in_a_resource_counts(setting: Setting, tmp_path: Path, resource: str) -> None:
    own = shutil.copytree(str(setting.model), tmp_path / "own")
    (tmp_path / "lists.tsv").write_text("dog\thound\n")
    (tmp_path / "own.json").write_text("{}")
    (tmp_path / "dict").mkdir()
    (tmp_path / "dict" / "data.noun").write_text("1")
    named = {
        "synonyms": ("synonyms", str(tmp_path / "lists.tsv"), tmp_path / "lists.tsv"),
        "masked_lm": ("masked_lm", str(own), own / "config.json"),
        "similarity": ("similarity", str(own), own / "config.json"),
        "calibration": ("similarity", f"{own}@{tmp_path / 'own.json'}", tmp_path / "own.json"),
        "wordnet": ("wordnet", str(tmp_path / "dict"), tmp_path / "dict" / "data.noun"),
    }
    name, value, file = named[resource]
    given = replace(setting, resources=replace(setting.resources, **{name: value}))
    recipe = {"masked_lm": "bae-r", "wordnet": "pwws"}.get(name, "textfooler")
    says = with_("attack", recipe=recipe)
    before = Planner(given).plan(says, 1).key
    assert Planner(given).plan(says, 1).key == before
    moved = value.replace(str(tmp_path), str(shutil.copytree(tmp_path, tmp_path / "elsewhere")))
    elsewhere = replace(given, resources=replace(given.resources, **{name: moved}))
    assert Planner(elsewhere).plan(says, 1).key == before, "where it lies does not count"
    file.write_text(file.read_text() + " ")
    assert Planner(given).plan(says, 1).key != before


def test_what_is_in_a_file_that_an_option_names_counts(setting: Setting, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    for stage, more in (("encoder", {"method": "adcl"}), ("classifier", {"defence": "adv"})):
        vectors.write_text("dog 1 2\n")
        says = with_(stage, **more, options={"word_vectors": str(vectors)})
        before = keys(Planner(setting).plan(says, 1))
        vectors.write_text("dog 1 3\n")
        assert before[stage] != keys(Planner(setting).plan(says, 1))[stage]


def test_a_scale_speaks_of_tasks(setting: Setting) -> None:
    tasks = {"sst2": {"classifier": {"train_split": "dev"}, "attack": {"split": "train"}}}
    cell = Planner(replace(setting, tasks=tasks)).plan(SAYS, 1)
    assert cell.settings["split"] == "train"
    assert cell.inputs["victim"].settings["train_split"] == "dev"
    overruled = Planner(replace(setting, tasks=tasks)).plan(with_("attack", split="test"), 1)
    assert overruled.settings["split"] == "test"


def test_adversarial_texts_are_made_against_the_same_classifier_without_them(setting: Setting) -> None:
    plain = Planner(setting).plan({**SAYS, "attack": {}}, 1)
    says = with_("classifier", adversarial_texts={"recipe": "typos", "examples": 3})
    cell = Planner(setting).plan({**says, "attack": {}}, 1)
    texts = cell.inputs["texts"]
    assert cell.settings == plain.settings
    assert cell.key != plain.key == texts.inputs["victim"].key
    assert (texts.settings["recipe"], texts.settings["split"], texts.settings["examples"]) == ("typos", "train", 3)
    assert cell.label == "robustembed, seed 1 on sst2 (none, adversarial texts)"
    tasks = {"sst2": {"classifier": {"train_split": "dev"}}}
    elsewhere = Planner(replace(setting, tasks=tasks)).plan({**says, "attack": {}}, 1)
    assert elsewhere.inputs["texts"].settings["split"] == "dev"
    with pytest.raises(UserError, match="'exampels'"):
        Planner(setting).plan(with_("classifier", adversarial_texts={"recipe": "typos", "exampels": 3}), 1)


def test_in_domain_training_takes_the_split_that_the_classifier_takes(setting: Setting) -> None:
    tasks = {"sst2": {"classifier": {"train_split": "dev"}}}
    says = with_("encoder", corpus="task:sst2")
    (encoder,) = (
        cell for cell in Planner(replace(setting, tasks=tasks)).plan(says, 1).needed() if cell.kind == "encoder"
    )
    assert encoder.where == {"corpus": "task:sst2/dev"}


@pytest.mark.parametrize("corpus", ["task:sst2", "task:sst2/dev"])
def test_in_domain_training_takes_what_the_scale_says_of_the_task(setting: Setting, corpus: str) -> None:
    setting = replace(setting, tasks={"sst2": {"encoder": {"max_length": 100}}})

    def length(**more: object) -> object:
        needed = Planner(setting).plan(with_("encoder", **more), 1).needed()
        return next(cell.settings["max_length"] for cell in needed if cell.kind == "encoder")

    assert length(corpus=corpus) == 100
    assert length(corpus=corpus, max_length=64) == 64  # a table's own word
    assert length() == 32  # of another corpus the scale says nothing


def test_long_texts_of_a_task_are_trained_on(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A review may be longer than the lines of a corpus."""
    trained: list[Any] = []
    monkeypatch.setattr("holdfast.training.training_run.train", lambda config, **rest: trained.append(config))
    monkeypatch.setattr(cell_execution, "_corpus", lambda work: str(tmp_path / "corpus.jsonl"))
    cells = Planner(setting).plan(with_("encoder", corpus="task:sst2"), 1).needed()
    (encoder,) = (cell for cell in cells if cell.kind == "encoder")
    cell_execution._train(
        cell_execution.Work(encoder, tmp_path / "out", {"start": Path(setting.model)}, setting, Console(), [])
    )
    assert trained[0].max_chars > 14_000


def test_seeds_are_of_what_is_trained_and_not_of_what_is_measured(setting: Setting) -> None:
    """A model that is not trained is the same for every seed; a classifier of it is not, and is attacked alike."""
    says = {**SAYS, "encoder": {"method": "none"}}
    first, second = (list(Planner(setting).plan(says, seed).needed()) for seed in (1, 2))
    assert [cell.kind for cell in first if cell.key not in {other.key for other in second}] == ["classifier", "attack"]
    assert [cell.settings.get("seed") for cell in first] == [None, 1, 1]
    assert [cell.settings.get("seed") for cell in second] == [None, 2, 1]
    plane = {**SAYS, "distances_in": {"encoder": {"method": "simcse"}}}
    assert Planner(setting).plan(plane, 2).settings["seed"] == 1
    for encoder, distinct in (({"method": "none"}, 1), (SAYS["encoder"], 2)):
        for kind in ("masks", "hard-positives"):
            look = {"encoder": encoder, "inspection": {"kind": kind, "texts": ["a dog"]}}
            cells = [Planner(setting).plan(look, seed) for seed in (1, 2)]
            assert len({cell.key for cell in cells}) == distinct
            assert [cell.settings["seed"] for cell in cells] == [1, 1]


def test_adversarial_texts_for_a_training_are_by_its_seed(setting: Setting) -> None:
    says = with_("classifier", adversarial_texts={"recipe": "typos", "examples": 3})
    second = Planner(setting).plan({**says, "attack": {}}, 2)
    assert second.inputs["texts"].settings["seed"] == second.settings["seed"] == 2


def test_in_domain_training_on_another_split_is_other_work(setting: Setting) -> None:
    cells = [Planner(setting).plan({"encoder": {**SAYS["encoder"], "corpus": f"task:sst2{split}"}}, 1)
             for split in ("", "/dev")]  # fmt: skip
    assert cells[0].key != cells[1].key


def test_another_classifier_gets_the_texts(setting: Setting) -> None:
    says = {**SAYS, "transfer_to": {"encoder": {"method": "none"}}}
    cell = Planner(setting).plan(says, 1)
    assert cell.kind == "transfer"
    assert cell.inputs["texts"].key == Planner(setting).plan(SAYS, 1).key
    plain = {"encoder": {"method": "none"}, "classifier": SAYS["classifier"]}
    assert cell.inputs["on"].key == Planner(setting).plan(plain, 1).key


def test_adversarial_fine_tuning_takes_the_resources_of_the_attacks(setting: Setting, data: Path) -> None:
    says = with_("classifier", defence="adv")
    classifier = Planner(setting).plan(says, 1).inputs["victim"]
    assert classifier.where == {"masked_lm": setting.resources.masked_lm, "word_vectors": "neighbours"}
    assert classifier.settings["epochs"] == 4.0
    named = Planner(setting).plan(with_("classifier", defence="adv", options={"masked_lm": "mine"}), 1)
    assert named.inputs["victim"].where == {"word_vectors": "neighbours"}
    assert named.inputs["victim"].settings["options"]["masked_lm"] == "mine"
    weak = Planner(setting).plan(with_("classifier", defence="adv", options={"source": "masked-lm"}), 1)
    assert weak.inputs["victim"].where == {"masked_lm": setting.resources.masked_lm}


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ({"encoder": {"method": "adcl", "max_steps": 5}, "evaluation": {"tasks": "sst2"}}, "encoder"),
        ({**SAYS, "classifier": {**SAYS["classifier"], "defence": "adv"}}, "classifier"),
        ({"encoder": {"method": "none"}, "inspection": {"kind": "hard-positives", "texts": ["a dog"]}}, "inspection"),
    ],
)
def test_a_training_attack_has_the_synonyms_of_the_attacks(
    setting: Setting, data: Path, says: dict[str, Any], kind: str
) -> None:
    def cell(given: Setting) -> Cell:
        return next(each for each in Planner(given).plan(says, 1).needed() if each.kind == kind)

    lists = data / "synonyms" / "counterfitted_neighbors.tsv"
    before = cell(setting)
    assert before.where["word_vectors"] == "neighbours"
    assert str(data) not in json.dumps(before.settings), "a path in the key: no other machine has it"
    lists.write_text(lists.read_text() + "cat\tdog\n")
    assert cell(setting).key != before.key
    vectors = cell(replace(setting, resources=replace(setting.resources, synonyms="counterfitted")))
    assert vectors.where["word_vectors"] == "counterfitted"
    lists.unlink()
    with pytest.raises(UserError, match="neighbour lists are not here"):
        cell(setting)


def test_a_training_without_an_attack_has_no_synonyms(setting: Setting) -> None:
    for options in ({"positives": "dropout"}, {"source": "masked-lm"}):
        encoder = {"method": "adcl", "max_steps": 5, "options": options}
        cell = Planner(setting).plan({"encoder": encoder, "evaluation": {"tasks": "sst2"}}, 1)
        assert "word_vectors" not in cell.inputs["encoder"].where


def test_an_ensemble_can_be_an_attack_of_a_table(setting: Setting) -> None:
    def cell(**changes: Any) -> Cell:
        return Planner(setting).plan(with_("attack", recipe="auto", **changes), 1)

    assert cell().settings["constants"]["max_share"] == 0.2
    part = cell(constants={"pwws.same_tag": True})
    assert part.settings["constants"]["pwws.same_tag"] is True
    assert len({cell().key, part.key, cell(constants={"max_share": 0.4}).key}) == 3


def test_an_evaluation_is_of_the_encoder_alone(setting: Setting, data: Path) -> None:
    says = {"encoder": SAYS["encoder"], "evaluation": {"tasks": "sst2,stsb"}}
    cells = list(Planner(setting).plan(says, 1).needed())
    assert [cell.kind for cell in cells] == ["model", "encoder", "evaluation"]
    assert cells[-1].settings["tasks"] == ["sst2", "stsb"]
    (data / "sst2" / "dev.tsv").write_text("sentence\tlabel\na dog\t1\n")
    assert Planner(setting).plan(says, 1).key != cells[-1].key


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"not_run": "no time"}, "^no time$"),
        (with_("encoder", max_step=5), r"encoder: unknown key 'max_step' \(did you mean 'max_steps'"),
        (with_("encoder", method="mine.py:Mine"), r"a table trains the methods of holdfast alone"),
        (with_("encoder", method="simces"), r"unknown method 'simces' \(did you mean 'simcse'"),
        (with_("encoder", max_steps="many"), "encoder: max_steps takes a whole number or null, not 'many'"),
        (with_("encoder", corpus="-"), "standard input"),
        (with_("classifier", task="ssst2"), r"unknown task 'ssst2' \(did you mean 'sst2'"),
        ({**SAYS, "classifier": {}}, "a classifier needs a task"),
        ({"encoder": {}, "attack": {"recipe": "pwws"}}, "an attack needs a recipe, and a task"),
        ({"encoder": {}, "evaluation": {"task": "sts"}}, r"'task' .*did you mean 'tasks'"),
        ({"encoder": {}, "evaluation": {"tasks": "stb"}}, r"evaluation: tasks.*'stb'"),
        ({"encoder": {}, "evaluation": {"text": "sentevl"}}, r"evaluation: text .*did you mean 'senteval'"),
        ({"encoder": {}, "evaluation": {"pooling": "meen"}}, r"evaluation: pooling .*did you mean 'mean'"),
        (with_("attack", recipe="textfoole"), r"unknown recipe 'textfoole' \(did you mean 'textfooler'"),
        (with_("attack", recipe="mine.py:Mine"), r"a table runs the recipes of holdfast alone"),
        (with_("attack", exampels=3), r"attack: unknown key 'exampels' \(did you mean 'examples'"),
    ],
)
def test_what_makes_no_sense_is_one_line(setting: Setting, says: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Planner(setting).plan(says, 1)


def test_a_model_or_corpus_that_is_not_named_is_asked_for(setting: Setting) -> None:
    with pytest.raises(UserError, match="give --model"):
        Planner(replace(setting, model=None)).plan(SAYS, 1)
    with pytest.raises(UserError, match="give --corpus"):
        Planner(replace(setting, corpus=None)).plan(SAYS, 1)


def test_an_encoder_can_be_trained_on_from_another(setting: Setting) -> None:
    scaled = replace(setting, scale={"encoder": {"sentences": 640}})
    planner = Planner(scaled)
    first = {"method": "simcse", "learning_rate": 1e-4}
    alone = planner.plan({"encoder": {"sentences": 640, **first}}, 1)
    cell = planner.plan({"encoder": {"method": "anchored", "from": first, "corpus": scaled.corpus}}, 1)
    assert cell.inputs["start"].key == alone.key, "the start is shared with the table's own row of it"
    assert cell.label == "anchored from simcse, seed 1"
    other = planner.plan({"encoder": {"method": "anchored", "from": {**first, "learning_rate": 2e-4}}}, 1)
    assert other.key != cell.key
    with pytest.raises(UserError, match="from must be the settings of another encoder, not 'simcse'"):
        planner.plan({"encoder": {"method": "anchored", "from": "simcse"}}, 1)


def test_synonyms_of_a_training_are_known_by_their_content(setting: Setting, tmp_path: Path) -> None:
    def planned(path: Path, text: str) -> Cell:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        encoder = {"method": "anchored", "max_steps": 1, "options": {"synonyms": str(path)}}
        return Planner(setting).plan({"encoder": encoder}, 1)

    cell = planned(tmp_path / "a.tsv", "word\tneighbors\ncat\tdog\n")
    assert cell.where["synonyms"] == str(tmp_path / "a.tsv")
    assert planned(tmp_path / "there" / "b.tsv", "word\tneighbors\ncat\tdog\n").key == cell.key
    assert planned(tmp_path / "a.tsv", "word\tneighbors\ncat\twoman\n").key != cell.key
    with pytest.raises(UserError, match="the file of --synonyms"):
        Planner(setting).plan({"encoder": {"method": "anchored", "options": {"synonyms": "./nowhere.tsv"}}}, 1)


def test_what_is_in_a_task_of_ones_own_counts(setting: Setting, tmp_path: Path) -> None:
    own = tmp_path / "mine.tsv"
    for data in (setting.data, None):
        found = []
        for label in (0, 1):
            own.write_text(f"sentence\tlabel\na dog\t0\na cat\t1\na bird\t{label}\n")
            says = {"encoder": {"method": "none"}, "classifier": {"task": str(own)}, "attack": {"recipe": "typos"}}
            found.append(keys(Planner(replace(setting, data=data)).plan(says, 1)))
        assert found[0]["classifier"] != found[1]["classifier"]
        assert found[0]["attack"] != found[1]["attack"]


def test_the_attack_sets_that_training_leaves_out_count(setting: Setting, data: Path) -> None:
    (data / "mr").mkdir(exist_ok=True)
    (data / "mr" / "all.tsv").write_text("sentence\tlabel\na dog\t0\na cat\t1\n")
    says = {"encoder": {"method": "simcse", "max_steps": 2, "corpus": "task:mr"}, "classifier": {"task": "mr"}}
    before = keys(Planner(setting).plan(says, 1))
    (data / "textfooler").mkdir(exist_ok=True)
    (data / "textfooler" / "mr.tsv").write_text("sentence\tlabel\na dog\t0\n")
    after = keys(Planner(setting).plan(says, 1))
    assert before["encoder"] != after["encoder"]
    assert before["classifier"] != after["classifier"]


def test_an_evaluation_is_of_the_text_that_it_reads(setting: Setting, data: Path) -> None:
    (data / "sts12").mkdir(exist_ok=True)
    header = "sentence1\tsentence2\tscore\n"
    found: dict[str, list[str]] = {"raw": [], "senteval": []}
    for score in (1, 5):
        (data / "sts12" / "test.tsv").write_text(f"{header}a\tb\t1\nc\td\t2\n")
        (data / "sts12" / "test_senteval.tsv").write_text(f"{header}a\tb\t{score}\nc\td\t2\n")
        for text, own in found.items():
            says = {"encoder": {"method": "none"}, "evaluation": {"tasks": "sts12", "text": text}}
            own.append(Planner(setting).plan(says, 1).key)
    assert found["raw"][0] == found["raw"][1]
    assert found["senteval"][0] != found["senteval"][1]


def test_methods_in_tables_keep_equal_sentences_as_the_papers_do(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cell's settings do not say so: it has the name that it had before there was the option."""
    trained: list[Any] = []
    monkeypatch.setattr("holdfast.training.training_run.train", lambda config, **rest: trained.append(config))

    def cell(**encoder: Any) -> Cell:
        planned = Planner(setting).plan({"encoder": {"max_steps": 2, **encoder}}, 1)
        cell_execution._train(
            cell_execution.Work(planned, tmp_path / "out", {"start": Path(setting.model or "")}, setting, Console(), [])
        )
        return planned

    plain, preset = cell(method="adcse"), cell(method="adcse", preset="paper")
    masked = cell(method="adcse", options={"duplicates": "mask"})
    assert "duplicates" not in plain.settings["options"]
    assert "duplicates" not in preset.settings["options"]
    assert masked.settings["options"] == {**plain.settings["options"], "duplicates": "mask"}
    assert masked.key != plain.key
    assert cell(method="adcse", options={"duplicates": "keep"}).key == plain.key
    assert "duplicates" not in cell(method="anchored").settings["options"]
    # What else has a default stays, None among it.
    defaults = option_defaults(objective_class("robustembed"))
    assert cell(method="robustembed").settings["options"] == {k: v for k, v in defaults.items() if k != "duplicates"}
    said = [config.options.get("duplicates") for config in trained]
    assert said == ["keep", "keep", "mask", "keep", None, "keep"]


def test_a_table_sets_what_changes_a_cells_values_and_nothing_of_the_command_line() -> None:
    settings = {
        stage: set(stage_settings.settings_of(stage)) for stage in ("encoder", "baseline", "classifier", "attack")
    }
    assert settings["attack"] == {
        *("constants", "examples", "goal", "k", "margin", "precision", "split", "task", "threshold")
    }
    of_the_command_line = {"EXCLUSIVE", "data", "model", "output", "resources", "seed", "similarity", "synonyms"}
    assert all(not names & of_the_command_line for names in settings.values())
