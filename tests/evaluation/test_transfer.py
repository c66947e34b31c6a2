"""The transfer protocol against a plain implementation of SentEval's, on small made-up tasks."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_senteval import NESTED_GRID, TRAIN_GRID, plain_accuracy
from sentence_transformers import SentenceTransformer

from holdfast.data.registry import Labelled
from holdfast.errors import UserError
from holdfast.evaluation.evaluation_run import GROUPS, evaluate_tasks, task_names
from holdfast.evaluation.sts import STS_TASKS
from holdfast.evaluation.transfer import (
    STRENGTHS,
    STRENGTHS_ACROSS,
    TRANSFER_TASKS,
    TransferTask,
    evaluate_transfer,
    load_transfer,
    transfer_average,
)
from holdfast.models import load_sentence_transformer

TIGHT = {"solver": "newton-cg", "tol": 1e-8, "max_iter": 10_000}


class Space:
    """Vectors of sentences whose last word is their class, hidden in noise; of every other sentence drawn by chance."""

    def __init__(self, noise: float = 2.0, width: int = 6) -> None:
        self.noise, self.width = noise, width
        self.vectors: dict[str, np.ndarray] = {}

    def __call__(self, sentences: Any) -> np.ndarray:
        return np.stack([self.of(sentence) for sentence in sentences])

    def of(self, sentence: str) -> np.ndarray:
        if sentence not in self.vectors:
            rng = np.random.default_rng(len(self.vectors))
            signal = np.zeros(self.width)
            signal[hash_of(sentence) % 3] = 1.0
            vector = signal + self.noise * rng.normal(size=self.width) * np.linspace(0.2, 1.0, self.width)
            self.vectors[sentence] = vector.astype(np.float32)
        return self.vectors[sentence]


def hash_of(sentence: str) -> int:
    return int(sentence.rsplit("c", 1)[1])


def part(n: int, classes: list[str], *, seed: int, split: str, pairs: bool = False) -> Labelled:
    """Sentences of one to nine words, the last of which tells the class; classes of unequal size."""
    draw = random.Random(seed)
    labels = [draw.choice([0, *range(len(classes))]) for _ in range(n)]

    def side(name: str) -> list[str]:
        return [" ".join(["w"] * draw.randint(0, 8) + [f"{name}{i}c{label}"]) for i, label in enumerate(labels)]

    second = side("t") if pairs else None
    return Labelled("toy", split, side("s"), second, labels, classes, f"toy-{split}.tsv", f"{split}{seed}")


def toy(kind: str) -> TransferTask:
    if kind == "nested":
        return TransferTask("mr", {"all": part(140, ["0", "1"], seed=1, split="all")})
    if kind == "dev":
        sizes = {"train": 150, "dev": 60, "test": 80}
        return TransferTask("sst2", {s: part(n, ["0", "1"], seed=n, split=s) for s, n in sizes.items()})
    pairs, classes = kind == "mrpc", ["0", "1"] if kind == "mrpc" else ["B", "C", "A"]
    sizes = {"train": 150, "test": 90}
    return TransferTask(kind, {s: part(n, classes, seed=n, split=s, pairs=pairs) for s, n in sizes.items()})


@pytest.mark.parametrize("kind", ["nested", "dev", "trec", "mrpc"])
def test_accuracy_and_strengths_are_those_of_a_plain_implementation(kind: str) -> None:
    task, space = toy(kind), Space()
    row = task.score(space)
    accuracy, strengths = plain_accuracy(task.parts, space.vectors, **TIGHT)
    assert row["selection"]["C"] == strengths
    # The mean over folds of unequal size, as SentEval has it, is not quite the share of all rows.
    assert row["metrics"]["accuracy"] == pytest.approx(accuracy, abs=0.2 if kind == "nested" else 1e-9)
    assert 45.0 < row["metrics"]["accuracy"] < 95.0, "a task that anyone or no one solves would prove nothing"
    assert row["metrics"]["accuracy"] == pytest.approx(100 * np.mean(row["items"]["correct"]))
    tested = task.parts["all" if kind == "nested" else "test"]
    assert (row["n"], row["split"], row["data_sha256"]) == (len(tested.labels), tested.split, tested.sha256)
    assert len(row["selection"]["dev_accuracy"]) == (10 if kind == "nested" else 1)
    assert ("f1" in row["metrics"]) == (kind == "mrpc")
    assert ("trained_on" in row) == (kind != "nested")


def test_the_strengths_are_sentevals() -> None:
    assert (list(STRENGTHS), list(STRENGTHS_ACROSS)) == (NESTED_GRID, TRAIN_GRID)


def test_items_are_in_the_datas_order() -> None:
    task, space = toy("trec"), Space()
    row = task.score(space)
    test = task.parts["test"]
    order = list(range(len(test.labels)))
    random.Random(3).shuffle(order)
    moved = dataclasses.replace(
        test, sentences1=[test.sentences1[i] for i in order], labels=[test.labels[i] for i in order]
    )
    again = TransferTask("trec", {**task.parts, "test": moved}).score(space)
    assert again["items"]["correct"] == [row["items"]["correct"][i] for i in order]
    assert 0 < sum(row["items"]["correct"]) < row["n"]
    # Right by the vector's own say: with the class written into it plainly, and another one for three of the rows.
    clear = Space(noise=0.01)
    clear(test.sentences1)
    for wrong in (4, 11, 50):
        clear.vectors[test.sentences1[wrong]] = clear.of(f"xc{(test.labels[wrong] + 1) % 3}")
    correct = TransferTask("trec", task.parts).score(clear)["items"]["correct"]
    assert [i for i, right in enumerate(correct) if not right] == [4, 11, 50]


def test_f1_is_that_of_class_one() -> None:
    task, space = toy("mrpc"), Space()
    row = task.score(space)
    labels, correct = np.array(task.parts["test"].labels), np.array(row["items"]["correct"])
    predicted = np.where(correct, labels, 1 - labels)
    hits = int(((predicted == 1) & (labels == 1)).sum())
    assert row["metrics"]["f1"] == pytest.approx(200 * hits / ((predicted == 1).sum() + (labels == 1).sum()))


def test_too_few_of_a_class_and_vectors_that_are_not_finite_are_told() -> None:
    small = part(40, ["0", "1"], seed=1, split="all")
    rare = dataclasses.replace(small, labels=[1 if i < 9 else 0 for i in range(40)])
    with pytest.raises(UserError, match=r"toy-all\.tsv: 9 rows of class '1'; 10 folds"):
        TransferTask("mr", {"all": rare}).score(Space())
    space = Space()
    space(small.sentences1)
    space.vectors[small.sentences1[7]][2] = np.nan
    with pytest.raises(UserError, match=r"mr \(all\).*not finite"):
        TransferTask("mr", {"all": small}).score(space)


def test_a_dev_part_needs_no_folds() -> None:
    sizes = {"train": 12, "dev": 12, "test": 12}
    parts = {split: part(n, ["0", "1"], seed=n, split=split) for split, n in sizes.items()}
    assert TransferTask("sst2", parts).score(Space())["n"] == 12
    parts["train"] = dataclasses.replace(parts["train"], labels=[0] * 12)
    with pytest.raises(UserError, match=r"toy-train\.tsv: no row of class '1'"):
        TransferTask("sst2", parts).score(Space())


def test_the_average_needs_all_seven() -> None:
    rows = [
        {"task": task, "split": "test", "metrics": {"accuracy": 10.0 * i}, "selection": {}}
        for i, task in enumerate(TRANSFER_TASKS)
    ]
    finetuned = {"task": "mr", "split": "test", "metrics": {"accuracy": 99.0}}
    assert transfer_average([*rows, finetuned]) == pytest.approx(30.0)
    assert transfer_average([*rows[:-1], finetuned]) is None


# --- with a model and files --------------------------------------------------------------------------------------

WORDS = "the a man woman dog cat runs sleeps eats plays on under in park house bed red big old".split()


@pytest.fixture
def model(masked_lm: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(masked_lm), device="cpu")


def write(folder: Path, name: str, rows: list[str], header: str) -> None:
    path = folder / f"{name}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """CR with an empty sentence, MRPC in both texts, and STS-B, whose sentences are CR's."""
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 7))) for _ in range(60)]
    folder = tmp_path / "data"
    write(folder, "cr/all", [f"{line}\t{i % 2}" for i, line in enumerate(["", *lines[1:]])], "sentence\tlabel")
    pairs = [f"{a}\t{b}\t{i % 2}" for i, (a, b) in enumerate(zip(lines[:40], lines[20:], strict=True))]
    for split in ("train", "test"):
        write(folder, f"mrpc/{split}", pairs, "sentence1\tsentence2\tlabel")
        write(folder, f"mrpc/{split}_senteval", [f"a {pair}" for pair in pairs], "sentence1\tsentence2\tlabel")
    scored = [f"{a}\t{b}\t{i % 6}" for i, (a, b) in enumerate(zip(lines[:30], lines[30:], strict=True))]
    for split in ("dev", "test"):
        write(folder, f"stsb/{split}", scored, "sentence1\tsentence2\tscore")
    return folder


def test_each_sentence_is_encoded_once_for_all_tasks(model: SentenceTransformer, data: Path) -> None:
    texts: list[int] = []
    model[0].register_forward_pre_hook(lambda module, args: texts.append(len(args[0]["input_ids"])))
    started: list[str] = []
    rows = evaluate_tasks(model, ["space", "cr", "mrpc", "stsb"], data=data, started=started.append)
    assert [row["task"] for row in rows] == started == ["stsb", "cr", "mrpc", "space"]
    lines = (data / "cr" / "all.tsv").read_text().splitlines()[1:]
    mrpc = (data / "mrpc" / "train.tsv").read_text().splitlines()[1:]
    sentences = {line.split("\t")[0] for line in lines} | {s for line in mrpc for s in line.split("\t")[:2]}
    assert sum(texts) == len(sentences)
    assert "" in sentences
    assert rows[1]["n"] == 60
    # What each task gives is what it gives by itself.
    assert evaluate_transfer(model, tasks=("cr",), data=data)[0]["items"] == rows[1]["items"]


def test_the_text_of_senteval_is_taken_where_there_is_one(data: Path) -> None:
    raw, own = (load_transfer("mrpc", data=data, text=text) for text in ("raw", "senteval"))
    assert own.parts["test"].sentences1 == [f"a {s}" for s in raw.parts["test"].sentences1]
    assert load_transfer("cr", data=data, text="senteval").parts == load_transfer("cr", data=data).parts


def test_a_missing_file_stops_before_any_encoding(model: SentenceTransformer, data: Path) -> None:
    model[0].register_forward_pre_hook(lambda module, args: pytest.fail("encoded before the data was there"))
    with pytest.raises(UserError, match="trec"):
        evaluate_tasks(model, ["stsb", "cr", "trec"], data=data)
    with pytest.raises(UserError, match=r"unknown transfer task 'sst' \(did you mean 'sst2'\?\)"):
        evaluate_transfer(model, tasks=("sst",), data=data)


def test_groups_of_tasks() -> None:
    assert task_names("transfer") == list(TRANSFER_TASKS)
    assert task_names("mr, sts,stsb,space") == ["mr", *STS_TASKS, "space"]
    assert GROUPS["transfer"] == ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
    with pytest.raises(UserError, match="'mpqa'"):
        task_names("mpaq")
