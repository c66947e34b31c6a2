"""Samples of tasks, and that what is measured on one says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.data.registry import Labelled, ScoredPairs, load_pairs
from holdfast.errors import UserError
from holdfast.evaluation.evaluation_run import evaluate_sts_dev, evaluate_tasks
from holdfast.evaluation.sts import evaluate_sts
from holdfast.evaluation.task_sample import SEED, sample_labelled, sample_pairs
from holdfast.models import load_sentence_transformer


def pairs(count: int) -> ScoredPairs:
    texts = [str(number) for number in range(count)]
    scores = [float(number) for number in range(count)]
    return ScoredPairs("stsb", "test", texts, [f"{text}'" for text in texts], scores, texts, "here", "hash")


def labelled(counts: tuple[int, ...], second: bool = False) -> Labelled:
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    texts = [f"{number} of {label}" for number, label in enumerate(labels)]
    classes = [str(label) for label in range(len(counts))]
    return Labelled(
        "trec", "train", texts, [f"{t}'" for t in texts] if second else None, labels, classes, "here", "hash"
    )


def test_rows_of_pairs_stay_together_and_in_order() -> None:
    sample = sample_pairs(pairs(100), 10)
    assert len(sample.scores) == 10
    assert sample.scores == sorted(set(sample.scores))
    assert sample.sentences1 == [str(int(score)) for score in sample.scores] == sample.subsets
    assert sample.sentences2 == [f"{text}'" for text in sample.sentences1]
    assert sample_pairs(pairs(100), 10) == sample  # the same for every model
    assert sample_pairs(pairs(10), 10) == pairs(10)


def test_classes_keep_their_shares_and_a_least_number() -> None:
    whole = labelled((600, 300, 90, 10), second=True)
    sample = sample_labelled(whole, 100, least=5)
    assert Counter(sample.labels) == {0: 60, 1: 30, 2: 9, 3: 5}
    assert all(text.endswith(f" of {label}") for text, label in zip(sample.sentences1, sample.labels, strict=True))
    assert sample.sentences2 == [f"{text}'" for text in sample.sentences1]
    numbers = [int(text.split()[0]) for text in sample.sentences1]
    assert numbers == sorted(numbers)
    assert Counter(sample_labelled(labelled((50, 2)), 10, least=5).labels)[1] == 2  # no more than there are
    assert sample_labelled(whole, 1000) == whole


@pytest.fixture
def stsb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: list[str]) -> Path:
    """A data folder with 56 pairs of STS-B, test and dev."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    lines = [f"{a}\t{b}\t{(len(a) * len(b)) % 51 / 10}" for a in sentences for b in sentences if a != b]
    for split in ("test", "dev"):
        text = "\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n"
        (tmp_path / "data" / "stsb" / f"{split}.tsv").write_text(text)
    return tmp_path / "data"


def test_what_is_measured_on_a_sample_says_so(stsb: Path, make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model()
    (whole,) = evaluate_tasks(model, ["stsb"], data=stsb)
    (row,) = evaluate_tasks(model, ["stsb"], data=stsb, limit=20)
    assert (whole["n"], row["n"]) == (56, 20)
    assert "sample" not in whole
    assert row["sample"] == {"of": 56, "seed": SEED}
    gold = sample_pairs(load_pairs("stsb", "test", data=stsb), 20).scores
    assert row["items"]["gold"] == gold
    assert row["data_sha256"] == whole["data_sha256"]
    assert evaluate_tasks(model, ["stsb"], data=stsb, limit=56) == [whole]  # nothing was left out
    with pytest.raises(UserError, match="a limit of rows must be from 2"):
        evaluate_tasks(model, ["stsb"], data=stsb, limit=1)


def test_the_dev_pairs_are_a_row_of_their_own(stsb: Path, masked_lm: Path) -> None:
    model = load_sentence_transformer(str(masked_lm))
    (row,) = evaluate_sts_dev(model, data=stsb)
    assert (row["task"], row["split"], row["n"]) == ("stsb", "dev", 56)
    (same,) = evaluate_sts(model, tasks=["stsb"], data=stsb)  # the same pairs in this test
    assert row["metrics"] == same["metrics"]
    assert evaluate_sts_dev(model, data=stsb, limit=20)[0]["sample"]["of"] == 56
