"""What a scale says, and what is said in its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.errors import UserError
from holdfast.experiments.render import notes
from holdfast.experiments.run import ReproduceSettings, reproduce
from holdfast.experiments.scales import read_scale


def test_a_change_takes_the_place_of_what_the_scale_says() -> None:
    before, after = read_scale("small"), read_scale("small", ["encoder.sentences=6400", "attack.examples=50"])
    assert before.changes == {}
    assert after.changes == {"encoder": {"sentences": 6400}, "attack": {"examples": 50}}
    assert after.says == {
        **before.says,
        "encoder": {**before.says["encoder"], "sentences": 6400},
        "attack": {"examples": 50},
    }
    assert after.tasks == before.tasks


def test_a_change_of_a_stage_of_which_the_scale_says_nothing() -> None:
    assert "evaluation" not in read_scale("small").says
    assert read_scale("small", ["evaluation.limit=20"]).says["evaluation"] == {"limit": 20}
    assert read_scale("paper", ["classifier.learning-rate=3e-5"]).says["classifier"]["learning_rate"] == 3e-5


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
    ],
)
def test_a_change_that_cannot_be(change: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        read_scale("small", [change])


def test_a_table_overrules_a_change_and_the_result_tells_it(settings: Callable[..., ReproduceSettings]) -> None:
    before = reproduce(settings())
    after = reproduce(settings(changes=["attack.examples=2", "classifier.batch_size=4"]))
    assert after["protocol"]["changes"] == {"attack": {"examples": 2}, "classifier": {"batch_size": 4}}
    assert "Changed in the scale: attack.examples=2, classifier.batch_size=4." in notes(after)
    assert [row["cells"] for row in after["results"]] == [row["cells"] for row in before["results"]]  # all its own
    changed = reproduce(settings(changes=["classifier.max_length=20"]))
    assert [row["cells"] for row in changed["results"]] != [row["cells"] for row in before["results"]]
