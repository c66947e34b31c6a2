"""What is trained on, what selects, and what is kept out of both."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from classifier_rows import rows, write

from holdfast.classifiers.labelled_texts import Part, hold_out
from holdfast.classifiers.text_keys import keys
from holdfast.classifiers.training_data import Exclusion, load_training_data
from holdfast.data.registry import load_labelled
from holdfast.data.tasks import sources, task_named
from holdfast.errors import UserError

SAME = [
    ("😀 ❤️", "😀❤"),
    ("वह आता है।", "वह आता है"),
    ("caf\u00e9", "cafe\u0301"),
    ("It's a  dog's life!", "it 's a dog 's life !"),
    ("a collage of clichM-is and allusions .", "a collage of clich s and allusions"),
    ("a collage of clichés and allusions", "a collage of clich s and allusions"),
    ("third M-^Ewas it", "third … was it"),
    ("Always Coca-Cola.)", "Always Coca-Cola . -RRB-"),
]
DIFFERENT = [
    ("वह आता है", "वह आती है"),
    ("😀 😀", "😡"),
    ("a dog", "a dog 2"),
    ("猫です", "犬です"),
    ("不 dog", "猫 好 dog"),
    ("M-16 rifles", "M-14 rifle"),
]


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
    return load_training_data(task, **{**given, **changes})


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
    (test,) = material.tests
    assert (test.split, len(test)) == ("test", 60)


def test_a_published_attack_set_is_left_out_and_a_tenth_is_held_out(data: Path) -> None:
    material = load(data, "mr")
    assert material.excluded == (Exclusion("textfooler/mr", 30, 30, 0), Exclusion("mr held-out", 16, 0, 0))
    assert (len(material.train), len(material.dev), material.tests) == (154, 16, ())
    attacked = {key for text, _ in rows(200, 10)[:30] for key in keys((text,))}
    for part in (material.train, material.dev):
        assert not attacked & {key for text in part.texts for key in keys(text)}
    assert not set(material.train.texts) & set(material.dev.texts)
    assert sorted(material.dev.labels) == [0] * 8 + [1] * 8
    assert load(data, "mr").dev == material.dev
    assert load(data, "mr", seed=1).dev != material.dev


def test_a_part_names_its_texts(data: Path) -> None:
    dev, same, other = (load(data, "mr", seed=seed).dev for seed in (0, 0, 1))
    assert dev.items_sha256 == same.items_sha256 != other.items_sha256
    assert (dev.data_sha256, len(dev)) == (other.data_sha256, len(other))
    assert dev.rows(range(1, 16)).items_sha256 != dev.items_sha256 == dev.rows(range(16), "another name").items_sha256


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


def test_pairs_with_the_same_first_text_are_held_out_together() -> None:
    texts = [(f"Premise {i // 3}" + "." * (i % 2), f"hypothesis {i}") for i in range(300)]
    part = Part("dev", texts, [i % 3 for i in range(300)], "", "")
    dev, train = hold_out(part, 0, grouped=True)
    premises = [{text[0].strip(".") for text in side.texts} for side in (dev, train)]
    assert not premises[0] & premises[1]
    assert [dev.labels.count(label) for label in range(3)] == [10, 10, 10]
    assert len(train) == 270
    assert hold_out(part, 0, grouped=True) == (dev, train)
    assert hold_out(part, 1, grouped=True)[0] != dev


def test_scores_are_held_out_from_all_of_their_range() -> None:
    part = Part("train", [(str(i),) for i in range(100)], [float(i * 37 % 100) for i in range(100)], "", "")
    dev, train = hold_out(part, 0)
    assert [sum(low <= score < low + 20 for score in dev.labels) for low in range(0, 100, 20)] == [2] * 5
    assert len(train) == 90


def nli(count: int, seed: int, premise: str = "p") -> list[tuple[str, ...]]:
    """Three hypotheses for each premise."""
    names = ("entailment", "neutral", "contradiction")
    return [(f"{premise} {n // 3}", text, names[n % 3]) for n, (_, text, _) in enumerate(rows(count, seed, pairs=True))]


def test_a_dev_split_that_is_trained_on_shares_no_premise_with_what_is_measured(data: Path) -> None:
    write(data / "snli" / "dev.tsv", nli(120, 0))
    write(data / "snli" / "test.tsv", [*nli(60, 1, "q"), ("P 3!", "another hypothesis", "neutral")])
    write(data / "snli" / "test_hard.tsv", nli(30, 1, "q"))
    material = load(data, "snli", train_split="dev")
    assert [(part.split, len(part)) for part in material.tests] == [("test", 61), ("test_hard", 30)]
    assert material.excluded[0] == Exclusion("snli test, premises included", 61, 3, 0)
    sides = [{text[0] for text in part.texts} for part in (material.train, material.dev, *material.tests)]
    assert not sides[0] & sides[1]
    assert "p 3" not in sides[0] | sides[1]
    assert (len(material.train), len(material.dev)) == (105, 12)


def test_a_published_training_split_is_left_as_it_is(data: Path) -> None:
    write(data / "snli" / "train.tsv", nli(120, 0))
    write(data / "snli" / "dev.tsv", nli(30, 2, "d"))
    write(data / "snli" / "test.tsv", [*nli(60, 1, "q"), ("p 3", "another hypothesis", "neutral")])
    material = load(data, "snli")
    assert (len(material.train), len(material.dev)) == (120, 30)
    assert material.excluded[0] == Exclusion("snli test", 61, 0, 0)


def test_without_any_test_split_a_part_is_held_out_to_be_one(data: Path) -> None:
    write(data / "qnli" / "dev.tsv", [(f"{a} {n}", b, ("entailment", "not_entailment")[int(c)]) for n, (a, b, c) in
                                      enumerate(rows(200, 0, pairs=True))])  # fmt: skip
    material = load(data, "qnli", train_split="dev")
    (test,) = material.tests
    assert (test.split, len(test), material.dev.split, len(material.dev)) == ("held-out-test", 20, "held-out", 18)
    assert [out.because for out in material.excluded] == ["qnli held-out-test", "qnli held-out"]
    texts = [set(part.texts) for part in (material.train, material.dev, test)]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 200
    other = load(data, "qnli", train_split="dev", seed=1)
    assert set(other.tests[0].texts) != texts[2]


def test_copies_of_a_text_held_out_for_testing_are_neither_trained_on_nor_selected_by(data: Path) -> None:
    made = rows(100, 0)
    write(data / "mine.tsv", [*made, *[(f"{text} !", label) for text, label in made]])
    material = load(data, str(data / "mine.tsv"))
    (test,) = material.tests
    theirs = {key for text in test.texts for key in keys(text)}
    for part in (material.train, material.dev):
        assert not theirs & {key for text in part.texts for key in keys(text)}
    assert material.excluded[0].because == "mine.tsv held-out-test"
    assert material.excluded[0].from_train > 5


def test_all_rounds_of_anli_are_measured(data: Path) -> None:
    for r in (1, 2, 3):
        write(data / "anli" / f"train_r{r}.tsv", nli(60, r, f"t{r}"))
        write(data / "anli" / f"dev_r{r}.tsv", nli(30, 10 + r, f"d{r}"))
        write(data / "anli" / f"test_r{r}.tsv", nli(30, 20 + r, f"e{r}"))
    material = load(data, "anli")
    assert (material.train.split, len(material.train)) == ("train", 180)
    assert (material.dev.split, len(material.dev)) == ("dev_all", 90)
    assert [part.split for part in material.tests] == [f"{p}_r{r}" for p in ("dev", "test") for r in (1, 2, 3)]
    # The rounds of the dev set are measured and select as well: they are not kept out of it.
    assert [out.because for out in material.excluded] == [*(f"anli test_r{r}" for r in (1, 2, 3)), "anli dev_all"]
    single = load(data, "anli_r2")
    assert (len(single.train), single.dev.split, [part.split for part in single.tests]) == (60, "dev", ["test"])
    part = load(data, "anli", train_split="dev_r1")
    assert part.dev.split == "held-out"
    assert [test.split for test in part.tests] == ["dev_r2", "dev_r3", "test_r1", "test_r2", "test_r3"]


def test_mnli_is_selected_on_matched_and_measured_on_both(data: Path) -> None:
    for split, seed in (("train", 0), ("dev_matched", 1), ("dev_mismatched", 2)):
        write(data / "mnli" / f"{split}.tsv", nli(60, seed, split))
    material = load(data, "mnli")
    assert (material.dev.split, [part.split for part in material.tests]) == ("dev_matched", ["dev_mismatched"])
    assert material.excluded[0] == Exclusion("mnli dev_mismatched", 60, 0, 0)


def test_texts_with_several_labels_and_repeated_ids_are_counted(data: Path) -> None:
    made = [("a dog", "dog"), ("a dog", "cat"), ("a cat", "cat"), ("a cat", "cat")]
    made += [(text, ("cat", "dog")[int(label)]) for text, label in rows(40, 0)]
    path = data / "mine.jsonl"
    lines = [{"id": n // 2, "sentence": text, "label": label} for n, (text, label) in enumerate(made)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    material = load(data, str(path))
    assert (material.task, material.classes) == ("mine.jsonl", ["cat", "dog"])
    assert material.notes == (
        "texts of mine.jsonl all that have different labels: 1",
        f"rows of {path} that have the id of an earlier row: 22",
    )
    assert load(data).notes == ()


def test_scores_make_a_regression(data: Path) -> None:
    for split, count in (("train", 100), ("dev", 20), ("test", 20)):
        write_scores(data / "stsb" / f"{split}.tsv", count, split)
    material = load(data, "stsb")
    assert (material.regression, material.classes, material.takes_pairs) == (True, ["score"], True)
    assert all(type(score) is float for score in material.train.labels)
    assert (material.dev.split, [part.split for part in material.tests]) == ("dev", ["test"])
    assert not load(data).regression


def test_a_trial_split_selects(data: Path) -> None:
    for split, count in (("train", 100), ("trial", 20), ("test", 20)):
        write_scores(data / "sickr" / f"{split}.tsv", count, split)
    material = load(data, "sickr")
    assert material.dev.split == "trial"
    assert len(material.train) == 100
    assert [part.split for part in material.tests] == ["test"]


def write_scores(path: Path, count: int, word: str, score: float | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{word} {n}\tb {n}\t{n % 5 + 1 if score is None else score}\n" for n in range(count)]
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(lines))


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
    ({"task": "trec"}, "no text of the class 'ABBR' among 32 training texts"),
    ({"task": "one-class.tsv"}, "one-class.tsv all: the only class is 'x'"),
    ({"task": "one-score.tsv"}, "the 80 training texts all have the same score"),
    ({"task": "one-premise.tsv"}, "no text is left for selection, and pairs with the same first text stay together"),
    ({"task": "new-class"}, "dev.tsv:3: the label 'c' is not one of a, b, the classes of the training split"),
    ({"task": "tests"}, "no training split"),
    ({"task": "mr", "train_split": "all_sentconv"}, "mr/all_sentconv.tsv.gz does not exist"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes(changes: dict[str, Any], message: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(data / "snli" / "dev.tsv", [(a, b, "neutral") for a, b, _ in rows(30, 0, pairs=True)])
    write(data / "ag_news" / "train_sample.tsv", rows(30, 0))
    write(data / "trec" / "train.tsv", [(f"who {n}", ("HUM", "LOC")[n % 2]) for n in range(40)])
    write(data / "one-class.tsv", [(f"text {n}", "x") for n in range(20)])
    write_scores(data / "one-score.tsv", 100, "a", 1.5)
    write(data / "one-premise.tsv", [("the premise", f"hypothesis {n}", str(n % 2)) for n in range(20)])
    write(data / "new-class" / "train.tsv", [("a", "a"), ("b", "b")])
    write(data / "new-class" / "dev.tsv", [("d", "a"), ("e", "c")])
    write(data / "tests" / "test.tsv", [("a", "a"), ("b", "b")])
    monkeypatch.chdir(data)
    with pytest.raises(UserError, match=message):
        load(data, **changes)


def test_a_split_that_lacks_a_class_has_the_numbers_of_the_training_split(data: Path) -> None:
    write(data / "mine" / "train.tsv", [(f"text {n}", "abc"[n % 3]) for n in range(60)])
    write(data / "mine" / "dev.tsv", [(f"dev {n}", "bc"[n % 2]) for n in range(10)])
    write(data / "mine" / "test.tsv", [(f"test {n}", "c") for n in range(5)])
    material = load(data, str(data / "mine"))
    assert material.dev.labels == [1, 2] * 5
    assert material.tests[0].labels == [2] * 5


@pytest.mark.parametrize(
    ("task", "split", "attacked"),
    [
        ("ag_news", "train_sample", "ag"),
        ("imdb", "train_sample", "imdb"),
        ("snli", "dev", "snli"),
        *(("mnli", "dev_matched", name) for name in ("mnli", "mnli_matched", "mnli_mismatched")),
        *(("anli_mix", "dev_mix", name) for name in ("snli", "mnli", "mnli_matched", "mnli_mismatched")),
    ],
)
def test_each_published_attack_set_is_left_out_of_its_task(data: Path, task: str, split: str, attacked: str) -> None:
    known = task_named(task)
    assert known.classes is not None
    made = [(*(f"{column} {n}" for column in known.columns), known.classes[n % len(known.classes)]) for n in range(80)]
    for file in sources(known.split(split)):
        write(data / f"{file}.tsv", made)
    write(data / "textfooler" / f"{attacked}.tsv", made[:20])
    material = load(data, task, train_split=split)
    assert {row[:-1] for row in made[:20]}.isdisjoint([*material.train.texts, *material.dev.texts])
    message = {found.because.partition(",")[0]: found.texts for found in material.excluded}
    assert message[f"textfooler/{attacked}"] == 20


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
    folder = real_data()
    rows, theirs = (load_labelled(*of, data=folder) for of in ((task, split), (attacked, "all")))
    texts, attacked_texts = (
        list(zip(*[column for column in (part.sentences1, part.sentences2) if column is not None], strict=True))
        for part in (rows, theirs)
    )
    marks = {key for text in attacked_texts for key in keys(text)}
    assert (sum(not marks.isdisjoint(keys(text)) for text in texts), len(attacked_texts)) == (1000, 1000)
