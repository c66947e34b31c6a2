"""What is trained on, what selects, and what is kept out of both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from classifier_rows import rows, write

from holdfast.classifiers.material import Exclusion, Part, hold_out, keys, load_material
from holdfast.errors import UserError

SAME = [
    ("It's a  dog's life!", "it 's a dog 's life !"),
    ("a collage of clichM-is and allusions .", "a collage of clich s and allusions"),
    ("a collage of clichés and allusions", "a collage of clich s and allusions"),
    ("third M-^Ewas it", "third … was it"),
    ("Always Coca-Cola.)", "Always Coca-Cola . -RRB-"),
]
DIFFERENT = [("a dog", "a dog 2"), ("猫です", "犬です"), ("不 dog", "猫 好 dog"), ("M-16 rifles", "M-14 rifle")]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_copies_of_a_text_are_known_however_they_are_written(one: str, other: str) -> None:
    assert keys((one,)) & keys((other,))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_texts_are_not_taken_for_copies(one: str, other: str) -> None:
    assert not keys((one,)) & keys((other,))


def test_a_pair_is_known_in_both_orders_and_only_as_a_whole() -> None:
    assert keys(("A dog.", "A cat.")) & keys(("a cat", "a dog"))
    assert not keys(("a dog", "a cat")) & keys(("a dog", "a man"))
    assert not keys(("a dog", "sings")) & keys(("a", "dog sings"))


def load(data: Path, task: str = "sst2", **changes: Any) -> Any:
    given: dict[str, Any] = {"train_split": None, "examples": None, "seed": 42, "data": data}
    return load_material(task, **{**given, **changes})


def test_texts_of_test_and_dev_are_left_out_of_training(data: Path) -> None:
    dev, test = rows(40, 1), rows(60, 2)
    train = [row for row in rows(240, 0) if row not in [*dev, *test]]
    spoilt = [(f"{test[3][0].upper()} !", "1"), (dev[5][0], "0"), (test[7][0], "0")]
    write(data / "sst2" / "train.tsv", [*train, *spoilt])
    write(data / "sst2" / "dev.tsv", [*dev, test[9]])
    material = load(data)
    assert material.excluded == (Exclusion("sst2 test", 60, 2, 1), Exclusion("sst2 dev", 40, 1, 0))
    assert material.train.texts == [(text,) for text, _ in train]
    assert material.dev.texts == [(text,) for text, _ in dev]
    assert material.train.labels == [int(label) for _, label in train]
    assert material.test is not None
    assert len(material.test) == 60


def test_a_published_attack_set_is_left_out_and_a_tenth_is_held_out(data: Path) -> None:
    material = load(data, "mr")
    assert material.excluded == (Exclusion("textfooler/mr", 30, 30, 0), Exclusion("mr held-out", 16, 0, 0))
    assert (len(material.train), len(material.dev), material.test) == (154, 16, None)
    attacked = {key for text, _ in rows(200, 10)[:30] for key in keys((text,))}
    for part in (material.train, material.dev):
        assert not attacked & {key for text in part.texts for key in keys(text)}
    assert not set(material.train.texts) & set(material.dev.texts)
    assert sorted(material.dev.labels) == [0] * 8 + [1] * 8
    assert load(data, "mr").dev == material.dev
    assert load(data, "mr", seed=1).dev != material.dev


def test_an_attack_set_that_is_not_at_hand_is_told(data: Path) -> None:
    (data / "textfooler" / "mr.tsv").unlink()
    material = load(data, "mr")
    assert material.excluded[-1] == Exclusion("textfooler/mr", None)
    assert len(material.train) == 180


def test_copies_of_a_held_out_text_are_not_trained_on(data: Path) -> None:
    write(data / "mr" / "all.tsv", [row for row in rows(200, 10)[30:] for _ in range(2)])
    material = load(data, "mr")
    assert not set(material.train.texts) & set(material.dev.texts)
    assert material.excluded[-1].from_train > 20


def test_the_held_out_share_is_of_each_class() -> None:
    part = Part("all", [(str(i),) for i in range(1000)], [0] * 900 + [1] * 98 + [2] * 2, "", "")
    dev, train = hold_out(part, 0)
    assert [dev.labels.count(label) for label in range(3)] == [90, 10, 1]
    assert len(train) == 899
    assert set(dev.texts) | set(train.texts) == set(part.texts)


def test_examples_are_drawn_by_the_seed_from_training_alone(data: Path) -> None:
    whole, part = load(data), load(data, examples=50)
    assert len(part.train) == 50
    assert set(part.train.texts) <= set(whole.train.texts)
    assert part.dev == whole.dev
    assert load(data, examples=50) == part
    assert load(data, examples=50, seed=1).train != part.train
    assert load(data, examples=5000) == whole


def test_a_training_split_may_be_named_and_is_then_no_selection_part(data: Path) -> None:
    material = load(data, train_split="dev")
    assert (material.train.split, material.dev.split) == ("dev", "held-out")
    assert len(material.train) + len(material.dev) == 40


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"task": "snli"}, "snli has no train split in .*: name the split to train on, --train-split dev"),
    ({"task": "ag_news"}, "--train-split train_sample"),
    ({"train_split": "test"}, "never trained on"),
    ({"train_split": "trian"}, "did you mean 'train'"),
    ({"task": "imdb"}, "imdb/train.tsv.gz does not exist"),
    ({"examples": 1}, "no text of the class"),
]


@pytest.mark.parametrize(("changes", "told"), MISTAKES)
def test_mistakes(changes: dict[str, Any], told: str, data: Path) -> None:
    write(data / "snli" / "dev.tsv", [(a, b, "neutral") for a, b, _ in rows(30, 0, pairs=True)])
    write(data / "ag_news" / "train_sample.tsv", rows(30, 0))
    with pytest.raises(UserError, match=told):
        load(data, **changes)


def real_data() -> Path:
    folder = Path(os.environ.get("HOLDFAST_DATA", ""))
    if not os.environ.get("HOLDFAST_DATA") or not (folder / "textfooler" / "mr.tsv.gz").is_file():
        pytest.skip("needs HOLDFAST_DATA with mr, mnli and the attack sets of textfooler")
    return folder


@pytest.mark.parametrize(
    ("task", "split", "attacked"), [("mr", "all", "textfooler/mr"), ("mnli", "dev_matched", "textfooler/mnli_matched")]
)
def test_every_text_of_the_published_attack_sets_is_found(task: str, split: str, attacked: str) -> None:
    """SentEval has garbled MR's accents and TextFooler has dropped them; MNLI's brackets are written in two ways."""
    material = load(real_data(), task, train_split=split)
    (found,) = (out for out in material.excluded if out.because == attacked)
    assert (found.texts, found.from_train) == (1000, 1000)
