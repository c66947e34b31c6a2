"""What a scale says, and what is said in its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from small_table import TABLE

from holdfast.errors import UserError
from holdfast.experiments.cell_planning import Planner, Setting
from holdfast.experiments.definition import merged, read_definition
from holdfast.experiments.preparation import prepare
from holdfast.experiments.render import notes
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.experiments.scales import read_scale


def test_a_change_takes_the_place_of_what_the_scale_says() -> None:
    before, after = read_scale("small"), read_scale("small", ["encoder.sentences=6400", "attack.examples=50"])
    assert before.changes == {}
    assert after.changes == {"encoder": {"sentences": 6400}, "attack": {"examples": 50}}
    assert after.stages == {
        **before.stages,
        "encoder": {**before.stages["encoder"], "sentences": 6400},
        "attack": {"examples": 50},
    }
    assert after.tasks == before.tasks


def test_a_change_of_a_stage_of_which_the_scale_says_nothing() -> None:
    assert "evaluation" not in read_scale("small").stages
    assert read_scale("small", ["evaluation.limit=20"]).stages["evaluation"] == {"limit": 20}
    assert read_scale("paper", ["classifier.learning-rate=3e-5"]).stages["classifier"]["learning_rate"] == 3e-5


def test_a_length_takes_the_place_of_another_way_to_say_it(settings: Callable[..., ReproduceSettings]) -> None:
    assert merged({"encoder": {"sentences": 9, "seed": 1}}, {"encoder": {"max_steps": 3}}) == {
        "encoder": {"seed": 1, "max_steps": 3}
    }
    assert read_scale("small", ["encoder.epochs=2"]).stages["encoder"] == {"evaluations": 8, "epochs": 2.0}
    # The table says max_steps: 2, and the scale and a change other lengths.
    for scale, changes in (("smoke", []), ("smoke", ["encoder.sentences=64"]), ("paper", ["encoder.epochs=1"])):
        given = settings(scale=scale, changes=changes)
        known = read_scale(scale, changes)
        setting = Setting(given.model, given.corpus, given.data, given.resources, known.tasks, known.stages)
        definition = read_definition(given.table, scale)
        row = next(row for row in definition.rows if row.name == "SimCSE")
        cell = Planner(setting).plan(merged(known.stages, definition.cell(row, "Acc.")), 1)
        assert cell.inputs["encoder"].settings["max_steps"] == 2


def test_settings_of_a_table_are_between_the_scale_and_a_change(settings: Callable[..., ReproduceSettings]) -> None:
    of_table = "scales: {paper: {settings: {encoder: {epochs: 2.0, max_length: 9}, attack: {examples: 3}}}}\n"
    table = TABLE.replace("max_steps: 2, ", "") + of_table
    for changes, expected in (
        ([], {"epochs": 2.0, "max_length": 9}),
        (["encoder.max_length=7"], {"epochs": 2.0, "max_length": 7}),
        (["encoder.max_steps=5"], {"max_steps": 5, "max_length": 9}),
    ):
        (prepared,) = prepare([settings(table, changes=changes)])
        (encoder,) = {cell for cell in prepared.cells if cell.kind == "encoder"}
        assert {name: encoder.settings[name] for name in expected} == expected
        assert prepared.overruled == {}
    (other,) = prepare([settings(table, scale="smoke")])
    assert {cell.settings["max_length"] for cell in other.cells if cell.kind == "encoder"} == {32}


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("{encodr: {sentences: 3}}", "small.yaml:.*there is no stage 'encodr'.*encoder"),
        ("{encoder: {sentence: 3}}", "small.yaml:.*there is no setting 'sentence'.*sentences"),
        ("{encoder: 3}", "small.yaml:16: "),
        ("{encoder: }", "small.yaml:16: "),
    ],
)
def test_settings_of_a_table_that_cannot_be(part: str, line: str, settings: Callable[..., ReproduceSettings]) -> None:
    with pytest.raises(UserError, match=line):
        prepare([settings(TABLE + f"scales: {{paper: {{settings: {part}}}}}\n")])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("sentences=6400", "--set sentences: a stage and its setting are needed, as in encoder.sentences=6400"),
        ("encodr.sentences=6400", "--set encodr.sentences: .*did you mean 'encoder'"),
        (
            "encoder.sentence=6400",
            "encoder has no setting 'sentence'.*did you mean 'sentences'",
        ),
        ("encoder.seed=3", "encoder has no setting 'seed'"),
        ("encoder.sentences=many", "'encoder.sentences' takes a whole number, not 'many'"),
        ("encoder.sentences", "--set takes name=value"),
        (
            "encoder.max_steps=3 encoder.sentences=640",
            r"--set encoder\.sentences and encoder\.max_steps exclude each other: both are its length",
        ),
    ],
)
def test_a_change_that_cannot_be(change: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        read_scale("small", change.split())


def test_a_table_overrules_a_change_and_the_result_tells_it(settings: Callable[..., ReproduceSettings]) -> None:
    before = reproduce(settings())
    after = reproduce(settings(changes=["attack.examples=2", "classifier.batch_size=4"]))
    assert after["protocol"]["changes"] == {}
    both = ["NP", "SimCSE"]
    assert after["protocol"]["overruled"] == {"attack.examples": both, "classifier.batch_size": both}
    assert (
        "Not changed where the table has a setting of its own: attack.examples (rows NP; SimCSE), "
        "classifier.batch_size (rows NP; SimCSE)." in notes(after)
    )
    assert not any(line.startswith("Changed in the scale") for line in notes(after))
    assert [row["cells"] for row in after["results"]] == [row["cells"] for row in before["results"]]  # all its own
    changed = reproduce(settings(changes=["classifier.max_length=20"]))
    assert [row["cells"] for row in changed["results"]] != [row["cells"] for row in before["results"]]
