"""Tasks in noise: which texts change, what the rows say, and that nothing is fitted on noisy texts."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_sample import stsb as stsb
from test_transfer import Space, toy

from holdfast.data.registry import ScoredPairs, load_pairs
from holdfast.edits.noise import Noise, noisy
from holdfast.errors import Notice
from holdfast.evaluation.evaluation_run import evaluate_tasks
from holdfast.evaluation.noisy_task import SEED, with_noise
from holdfast.evaluation.sts import StsTask, average
from holdfast.evaluation.transfer import TransferTask

UPPER, TYPING = Noise("case.upper", 1.0), Noise("typing", 0.3)


def test_the_second_sentences_of_pairs_change(stsb: Path) -> None:
    clean = StsTask(load_pairs("stsb", "test", data=stsb))
    task = with_noise(clean, TYPING)
    assert task is not None
    assert isinstance(task.task, StsTask)
    pairs = task.task.pairs
    assert pairs.sentences1 == clean.pairs.sentences1
    assert pairs.sentences2 == noisy(clean.pairs.sentences2, "typing", 0.3, SEED) != clean.pairs.sentences2


def test_each_noise_has_a_row_of_its_own_beside_the_clean_one(
    stsb: Path, make_encoder_model: Callable[..., Any]
) -> None:
    model = make_encoder_model()
    (clean,) = evaluate_tasks(model, ["stsb"], data=stsb)
    rows = evaluate_tasks(model, ["stsb"], data=stsb, noises=[TYPING, UPPER])
    assert rows[0] == clean
    assert "noise" not in clean
    assert [(row["task"], row["split"], row["noise"]) for row in rows[1:]] == [
        ("stsb", "test typing=0.3", "typing=0.3"),
        ("stsb", "test case.upper=1", "case.upper=1"),
    ]
    assert rows[1]["metrics"] != clean["metrics"]
    assert rows[1]["items"]["gold"] == clean["items"]["gold"]
    assert average(rows[1:]) is None  # a noisy row is never taken for the clean one


def test_a_sample_is_the_same_rows_with_and_without_noise(stsb: Path, make_encoder_model: Callable[..., Any]) -> None:
    clean, other = evaluate_tasks(make_encoder_model(), ["stsb"], data=stsb, limit=20, noises=[TYPING])
    assert (other["n"], other["sample"]) == (20, clean["sample"])
    assert other["items"]["gold"] == clean["items"]["gold"]


def test_the_space_has_no_noisy_row(stsb: Path, make_encoder_model: Callable[..., Any]) -> None:
    rows = evaluate_tasks(make_encoder_model(), ["stsb", "space"], data=stsb, noises=[TYPING])
    assert [(row["task"], row.get("noise")) for row in rows] == [
        ("stsb", None),
        ("stsb", "typing=0.3"),
        ("space", None),
    ]


@pytest.mark.parametrize("kind", ["nested", "dev", "trec", "mrpc"])
def test_only_tested_texts_of_transfer_tasks_change(kind: str) -> None:
    task, space = toy(kind), Space(noise=0.5)
    clean = task.score(space)
    same = dataclasses.replace(task, tested=task.clean_tested).score(space)
    assert same == clean
    shifted = [text.rsplit("c", 1)[0] + f"c{(label + 1) % 3}" for text, label in _rows(task)]
    second = task.clean_tested.sentences2
    other = dataclasses.replace(task.clean_tested, sentences1=shifted, sentences2=second and shifted)
    row = dataclasses.replace(task, tested=other).score(space)
    assert row["selection"] == clean["selection"]
    assert row["metrics"]["accuracy"] < clean["metrics"]["accuracy"] - 20
    assert set(shifted) <= set(dataclasses.replace(task, tested=other).sentences)


def _rows(task: TransferTask) -> Any:
    return zip(task.clean_tested.sentences1, task.clean_tested.labels, strict=True)


def test_the_noise_of_a_transfer_task_is_in_its_tested_texts() -> None:
    task = with_noise(toy("mrpc"), Noise("case.upper", 1.0))
    assert task is not None
    assert isinstance(task.task, TransferTask)
    tested = task.task.tested
    assert tested is not None
    assert tested.sentences1 == [text.upper() for text in task.task.parts["test"].sentences1]
    assert tested.sentences2 == [text.upper() for text in task.task.parts["test"].sentences2 or ()]
    assert task.task.parts == toy("mrpc").parts


def test_a_noise_that_is_made_for_english_says_so_of_another_language() -> None:
    pytest.importorskip("py3langid")
    german = [f"Der Zug nach München fährt heute um {hour} Uhr vom dritten Gleis ab." for hour in range(12)]
    english = [f"The train to London leaves at {hour} today from the third platform." for hour in range(12)]

    def task(texts: list[str]) -> StsTask:
        return StsTask(ScoredPairs("own", "test", texts, texts, [0.0] * len(texts), [""] * len(texts), "", ""))

    with pytest.warns(Notice, match="^own: the texts seem to be in de .*the noise speech is made for English"):
        with_noise(task(german), Noise("speech", 0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_noise(task(german), TYPING)
        with_noise(task(english), Noise("speech", 0.2))
