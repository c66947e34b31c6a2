"""The STS protocol: one Spearman over the subsets together, and never a number where there is none."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from holdfast.data.registry import ScoredPairs
from holdfast.edits.noise import Noise
from holdfast.errors import UserError
from holdfast.evaluation.evaluation_run import evaluate_tasks
from holdfast.evaluation.sts import STS_TASKS, average, evaluate_sts, score_pairs
from holdfast.evaluation.sts_dev import StsDev
from holdfast.models import load_sentence_transformer

LINES = ["the man runs", "a dog sleeps", "the woman sings", "a cat eats", "the child plays", "the old man sleeps"]


def toy_pairs(scores: list[float], subsets: list[str] | None = None) -> ScoredPairs:
    n = len(scores)
    return ScoredPairs(
        task="toy",
        split="test",
        sentences1=LINES[:n],
        sentences2=LINES[-n:][::-1],
        scores=scores,
        subsets=subsets or [""] * n,
        source="toy.tsv",
        sha256="ab",
    )


def at_angles(*degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of vectors whose cosines are those of the angles, and whose lengths say nothing."""
    radians = np.radians(degrees)
    lengths = np.arange(1, len(degrees) + 1)[:, None]
    left = np.tile([[2.0, 0.0]], (len(degrees), 1))
    return left.astype(np.float32), (lengths * np.stack([np.cos(radians), np.sin(radians)], 1)).astype(np.float32)


@pytest.fixture
def model(masked_lm: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(masked_lm), device="cpu")


def test_spearman_and_pearson_by_hand() -> None:
    # Ranks of the cosines: 4 3 2 1; of the scores: 3 4 2 1. Spearman = 1 - 6 * (1 + 1) / (4 * 15) = 0.8.
    row = score_pairs(toy_pairs([4.0, 5.0, 2.0, 0.0]), *at_angles(0, 60, 90, 180))
    assert row["metrics"]["spearman"] == pytest.approx(80.0)
    # Cosines 1, .5, 0, -1 (mean .125) and scores 4 5 2 0 (mean 2.75): 5.125 / sqrt(2.1875 * 14.75).
    assert row["metrics"]["pearson"] == pytest.approx(100 * 5.125 / np.sqrt(2.1875 * 14.75), abs=1e-4)
    assert (row["task"], row["split"], row["n"], row["data_sha256"]) == ("toy", "test", 4, "ab")
    assert row["subsets"] == {}


def test_tied_scores_share_their_ranks() -> None:
    # Ranks of the scores 3.5 3.5 1.5 1.5, of the cosines 4 3 2 1: covariance 4 over sqrt(5 * 4).
    row = score_pairs(toy_pairs([5.0, 5.0, 1.0, 1.0]), *at_angles(0, 60, 90, 180))
    assert row["metrics"]["spearman"] == pytest.approx(100 * 4 / np.sqrt(20))


def test_subsets_are_put_together_and_not_averaged() -> None:
    pairs = toy_pairs([1.0, 2.0, 4.0, 5.0, 3.0], subsets=["x", "x", "y", "y", "z"])
    row = score_pairs(pairs, *at_angles(90, 60, 150, 120, 0))
    assert row["subsets"]["x"]["spearman"] == row["subsets"]["y"]["spearman"] == pytest.approx(100.0)
    # All five together: ranks of the cosines 3 4 1 2 5 against 1 2 4 5 3: 1 - 6 * (4 + 4 + 9 + 9 + 4) / (5 * 24).
    assert row["metrics"]["spearman"] == pytest.approx(-50.0)
    assert row["subsets"]["z"] == {"n": 1}
    assert row["subsets"]["x"]["n"] == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [(np.nan, "not finite"), (np.inf, "not finite"), (0.0, "zero vector")],
)
def test_a_vector_without_a_cosine_is_refused(damage: float, message: str) -> None:
    left, right = at_angles(0, 60, 90)
    right[1] = damage
    with pytest.raises(UserError, match=rf"toy \(test\).*{message}"):
        score_pairs(toy_pairs([1.0, 2.0, 3.0]), left, right)


def test_a_collapsed_encoder_is_refused_also_when_rounding_tells_its_vectors_apart() -> None:
    left, right = at_angles(30, 30, 30)
    right += np.array([[0], [1e-7], [2e-7]], dtype=np.float32)
    with pytest.raises(UserError, match=r"toy \(test\).*equally similar"):
        score_pairs(toy_pairs([1.0, 2.0, 3.0]), left, right)


def test_constant_gold_scores_are_refused() -> None:
    with pytest.raises(UserError, match="gold"):
        score_pairs(toy_pairs([3.0, 3.0, 3.0]), *at_angles(0, 60, 90))


def write_task(folder: Path, name: str, rows: list[tuple[str, str, float]]) -> None:
    path = folder / f"{name}.tsv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{score}" for a, b, score in rows)]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_task(folder, "stsb/test", [(LINES[0], LINES[5], 4.0), (LINES[0], LINES[1], 1.0), (LINES[2], LINES[4], 2.0)])
    write_task(folder, "sickr/test", [(LINES[0], LINES[2], 3.0), (LINES[1], LINES[3], 2.5), (LINES[4], LINES[5], 1.0)])
    write_task(folder, "sickr/train", [(LINES[0], LINES[4], 2.0)])
    write_task(folder, "sickr/trial", [(LINES[3], LINES[4], 5.0)])
    return folder


def test_from_files_with_each_sentence_encoded_once_for_all_tasks(model: SentenceTransformer, data: Path) -> None:
    texts: list[int] = []
    model[0].register_forward_pre_hook(lambda module, args: texts.append(len(args[0]["input_ids"])))
    rows = evaluate_sts(model, tasks=("sickr-full", "stsb", "sickr"), data=data)
    assert sum(texts) == len(LINES)
    assert [(row["task"], row["n"]) for row in rows] == [("sickr-full", 5), ("stsb", 3), ("sickr", 3)]
    # Against the plain library: its own cosine, and ranks counted here.
    own = [
        float(model.similarity(*model.encode(pair))) for pair in ([LINES[0], LINES[5]], LINES[:2], [LINES[2], LINES[4]])
    ]
    ranks, gold = np.argsort(np.argsort(own)), np.array([2, 0, 1])
    expected = 100 * (1 - 6 * float(((ranks - gold) ** 2).sum()) / 24)
    assert rows[1]["metrics"]["spearman"] == pytest.approx(expected)


def test_items_are_the_pairs_scores_and_cosines(model: SentenceTransformer, data: Path) -> None:
    (row,) = evaluate_sts(model, tasks=("stsb",), data=data)
    assert row["items"]["gold"] == [4.0, 1.0, 2.0]
    pairs = [[LINES[0], LINES[5]], LINES[:2], [LINES[2], LINES[4]]]
    own = [float(model.similarity(*model.encode(pair))) for pair in pairs]
    assert row["items"]["similarity"] == pytest.approx(own, abs=1e-5)
    assert "items" not in score_pairs(toy_pairs([1.0, 2.0]), *at_angles(0, 60))


def test_pairs_of_several_tasks_are_named_in_either_order(model: SentenceTransformer, data: Path) -> None:
    pairs = [("A dog runs", "the cat sleeps", 1.0), ("a man eats", "a man sings", 3.0), ("a dog", "a cat", 2.0)]
    write_task(data, "sts12/test", pairs)
    write_task(
        data, "sts13/test", [("a child plays", "a dog runs", 4.0), ("the cat  sleeps", "a dog runs", 0.0), pairs[2]]
    )
    first, second = evaluate_sts(model, tasks=["sts12", "sts13"], data=data)
    assert first["repeated_pairs"]["places"] == [0, 2]
    assert second["repeated_pairs"]["places"] == [1, 2]
    assert first["repeated_pairs"]["ids"] == second["repeated_pairs"]["ids"]
    assert len(set(first["repeated_pairs"]["ids"])) == 2
    (alone,) = evaluate_sts(model, tasks=["sts12"], data=data)
    assert alone == {name: value for name, value in first.items() if name != "repeated_pairs"}
    noisy = evaluate_tasks(model, ["sts12", "sts13"], data=data, noises=Noise.parse("case.upper"))
    assert ["repeated_pairs" in row for row in noisy] == [True, False, True, False]


def test_pairs_of_equal_vectors_tie_whatever_rounding_does() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    left = rng.normal(size=(40, 384)).astype(np.float32)
    right = left + np.where(np.arange(40) < 20, 0.0, rng.normal(size=(384, 40))).T.astype(np.float32)
    scores = rng.uniform(0, 5, 40)
    pairs = ScoredPairs("toy", "test", [""] * 40, [""] * 40, scores.tolist(), [""] * 40, "toy.tsv", "ab")
    row = score_pairs(pairs, left, right, items=True)
    assert row["items"]["similarity"][:20] == [1.0] * 20
    exact = [1.0] * 20 + [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in zip(left, right, strict=True)
    ][20:]
    assert row["metrics"]["spearman"] == pytest.approx(100 * spearmanr(exact, scores).statistic, abs=1e-9)
    assert row["metrics"]["spearman"] == 100 * spearmanr(row["items"]["similarity"], scores).statistic


def test_items_give_the_same_correlation_though_they_are_rounded() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    n = 5000
    # Cosines of a collapsing encoder: all within a thousandth, so that coarse rounding would tie many.
    left = np.ones((n, 2), dtype=np.float32)
    right = left + np.stack([np.zeros(n), 0.04 * rng.random(n)], axis=1).astype(np.float32)
    scores = np.round(rng.uniform(0, 5, n), 1)
    pairs = ScoredPairs("toy", "test", [""] * n, [""] * n, scores.tolist(), [""] * n, "toy.tsv", "ab")
    row = score_pairs(pairs, left, right, items=True)
    again = 100 * spearmanr(row["items"]["similarity"], row["items"]["gold"]).statistic
    assert row["metrics"]["spearman"] == pytest.approx(again, abs=1e-6)


def test_an_unknown_task_and_missing_data_stop_before_any_encoding(model: SentenceTransformer, data: Path) -> None:
    model[0].register_forward_pre_hook(lambda module, args: pytest.fail("encoded before the data was there"))
    with pytest.raises(UserError, match=r"unknown STS task 'stbs' \(did you mean 'stsb'\?\)"):
        evaluate_sts(model, tasks=("stbs",), data=data)
    with pytest.raises(UserError, match="sts12"):
        evaluate_sts(model, tasks=("stsb", "sts12"), data=data)


def test_average_needs_all_seven_and_ignores_the_rest() -> None:
    rows = [{"task": task, "split": "test", "metrics": {"spearman": 10.0 * i}} for i, task in enumerate(STS_TASKS)]
    extra = [
        {"task": "sickr-full", "split": "all", "metrics": {"spearman": 99.0}},
        {"task": "stsb", "split": "dev", "metrics": {"spearman": 99.0}},
    ]
    assert average([*rows, *extra]) == pytest.approx(30.0)
    assert average([*rows[:-1], *extra]) is None


def test_dev_evaluator_leaves_the_model_as_it_was(model: SentenceTransformer, tmp_path: Path) -> None:
    evaluator = StsDev(toy_pairs([1.0, 4.0, 2.0, 5.0, 3.0, 0.0]), max_seq_length=64)
    model.max_seq_length = 3
    model.train()
    before = sorted(tmp_path.rglob("*"))
    state = torch.get_rng_state()
    metrics = evaluator(model, output_path=str(tmp_path), epoch=1, steps=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert (model.max_seq_length, model.training, model[0].training) == (3, True, True)
    assert sorted(tmp_path.rglob("*")) == before
    assert set(metrics) == {"stsb_dev_spearman", "stsb_dev_pearson"}
    assert evaluator.primary_metric == "stsb_dev_spearman"

    # The number is the one without truncation, and differs from the one with it.
    pairs = evaluator.pairs
    truncated = score_pairs(pairs, model.encode(pairs.sentences1), model.encode(pairs.sentences2))
    model.max_seq_length = 64
    whole = score_pairs(pairs, model.encode(pairs.sentences1), model.encode(pairs.sentences2))
    assert metrics["stsb_dev_pearson"] == pytest.approx(whole["metrics"]["pearson"], abs=1e-3)
    assert metrics["stsb_dev_pearson"] != pytest.approx(truncated["metrics"]["pearson"], abs=1e-2)


def test_dev_evaluator_tokenises_once_but_follows_the_weights(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = StsDev(toy_pairs([1.0, 4.0, 2.0, 5.0, 3.0, 0.0]))
    first = evaluator(model)
    calls: list[object] = []
    preprocess = model[0].preprocess
    monkeypatch.setattr(model[0], "preprocess", lambda *a, **k: calls.append(a) or preprocess(*a, **k))
    assert evaluator(model) == first
    assert calls == []
    with torch.no_grad():
        model[0].auto_model.embeddings.word_embeddings.weight.mul_(-1).add_(0.3)
    assert evaluator(model) != first
    model.max_seq_length = 3
    evaluator(model)
    assert calls


def test_importing_the_tasks_does_not_import_the_heavy_libraries() -> None:
    code = (
        "import sys, holdfast.evaluation.sts, holdfast.models, holdfast.results; "
        "assert not {'torch', 'transformers', 'sentence_transformers', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
