"""GLUE's tasks on the real files: what is trained and measured on, the classes, and every text's own label."""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.attacks.classifier import load_classifier
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.labelled_texts import Part, sample
from holdfast.classifiers.training_data import load_training_data
from holdfast.results import read_result

Text = tuple[str, ...]
NLI = ["entailment", "neutral", "contradiction"]
EXAMPLES, MEASURED = 200, 120


@dataclass
class Case:
    """What there is of a task: the split and rows that are trained on, and where each row of the result comes from."""

    task: str
    split: str | None
    train: tuple[str, int]
    classes: list[str]
    measured: dict[str, tuple[str, int | None]]
    """For each row of the result its file, and how many rows that has if it is measured whole or in a sample."""


CASES = [
    Case("mrpc", None, ("train", 4076), ["0", "1"], {"held-out": ("train", None), "test": ("test", 1725)}),
    Case("rte", None, ("train", 2490), ["entailment", "not_entailment"], {"dev": ("dev", 277)}),
    Case(
        "qnli",
        "dev",
        ("dev", 5463),
        ["entailment", "not_entailment"],
        {"held-out": ("dev", None), "held-out-test": ("dev", None)},
    ),
    Case(
        "qqp",
        "dev_10k",
        ("dev_10k", 9917),
        ["0", "1"],
        {"held-out": ("dev_10k", None), "test_10k": ("test_10k", 9928)},
    ),
    Case(
        "mnli",
        "dev_matched",
        ("dev_matched", 9815),
        NLI,
        {"held-out": ("dev_matched", None), "held-out-test": ("dev_matched", None)},
    ),
]


@pytest.fixture
def real_data() -> Path:
    folder = Path(os.environ.get("HOLDFAST_DATA", ""))
    missing = [case.task for case in CASES if not (folder / case.task / f"{case.train[0]}.tsv.gz").is_file()]
    if not os.environ.get("HOLDFAST_DATA") or missing:
        pytest.skip("HOLDFAST_DATA names no folder with mrpc, rte, qnli, qqp and mnli")
    return folder


@dataclass
class File:
    """A file of the task, read without holdfast: its rows, their hash, and the labels that it gives to each pair."""

    rows: int
    sha256: str
    labels: dict[Text, set[str]]

    @classmethod
    def read(cls, path: Path) -> File:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            read = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows = [(row["sentence1"], row["sentence2"], row["label"]) for row in read]
        labels: dict[Text, set[str]] = {}
        for first, second, label in rows:
            labels.setdefault((first, second), set()).add(label)
        return cls(len(rows), hashlib.sha256("\n".join(map("\t".join, rows)).encode()).hexdigest(), labels)

    def holds(self, part: Part, classes: list[str]) -> bool:
        """Whether every text of a part is one of the file's, with a label that the file gives it."""
        return all(
            classes[int(label)] in self.labels[text] for text, label in zip(part.texts, part.labels, strict=True)
        )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.task for case in CASES])
def test_every_text_is_measured_by_the_label_that_its_file_gives_it(
    case: Case, real_data: Path, tiny: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    settings = FinetuneSettings(
        model=str(tiny),
        task=case.task,
        output=output,
        train_split=case.split,
        max_steps=3,
        batch_size=16,
        learning_rate=1e-3,
        max_length=48,
        examples=EXAMPLES,
        test_examples=MEASURED,
        precision="fp32",
        data=real_data,
    )
    result = finetune(settings)
    assert read_result(output / "results.json") == result
    assert result["protocol"]["classes"] == case.classes
    assert result["protocol"]["takes_pairs"]
    assert [row["split"] for row in result["results"]] == list(case.measured)

    # The texts of every part, and the labels that the files give them.
    material = load_training_data(
        case.task, train_split=case.split, examples=EXAMPLES, seed=settings.seed, data=real_data
    )
    selecting, *tests = [material.dev, *material.tests]
    parts = {part.split: part for part in (selecting, *(sample(part, MEASURED, settings.seed) for part in tests))}
    names = {case.train[0], *(name for name, _ in case.measured.values())}
    files = {name: File.read(real_data / case.task / f"{name}.tsv.gz") for name in names}
    trained = result["protocol"]["data"]["train"]
    assert (files[case.train[0]].rows, files[case.train[0]].sha256) == (case.train[1], trained["sha256"])
    assert len(material.train) == trained["texts"] == EXAMPLES
    assert files[case.train[0]].holds(material.train, case.classes)
    apart = [set(part.texts) for part in (material.train, material.dev, *material.tests)]
    assert sum(map(len, apart)) == len(set().union(*apart)), "a text is in two parts"
    if case.task in ("qnli", "mnli"):  # where a premise, or a question, has several rows
        firsts = [{first for first, _ in texts} for texts in apart]
        assert sum(map(len, firsts)) == len(set().union(*firsts)), "a first text is in two parts"

    classifier = load_classifier(str(output), device="cpu")
    assert classifier.classes == case.classes
    for row in result["results"]:
        name, whole = case.measured[row["split"]]
        part, file = parts[row["split"]], files[name]
        message = result["protocol"]["data"]["dev" if part is selecting else row["split"]]
        assert message["sha256"] == file.sha256
        assert row["n"] == len(part) == message["texts"] == len(row["items"]["correct"])
        if whole is not None:
            assert file.rows == whole == row.get("sample", {"of": row["n"]})["of"]
        assert file.holds(part, case.classes)
        predicted = [case.classes[number] for number in classifier.logits(part.texts).argmax(axis=1)]
        gold = [min(file.labels[text]) for text in part.texts]
        right = [name == guess for name, guess in zip(gold, predicted, strict=True)]
        assert row["items"]["correct"] == right
        assert row["metrics"]["accuracy"] == pytest.approx(100 * sum(right) / row["n"])
        assert set(row["metrics"]) == ({"accuracy", "f1"} if case.task in ("mrpc", "qqp") else {"accuracy"})
        if "f1" in row["metrics"]:  # of the paraphrases
            hits = sum(name == guess == "1" for name, guess in zip(gold, predicted, strict=True))
            assert row["metrics"]["f1"] == pytest.approx(200 * hits / (gold.count("1") + predicted.count("1")))
