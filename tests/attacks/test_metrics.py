"""Metrics by hand."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from scipy import stats

from holdfast.attacks.examples import Attempt, Outcome
from holdfast.attacks.metrics import correlations, skip_reasons, summarise
from holdfast.evaluation.intervals import rate_interval


def attempt(
    number: int,
    outcome: Outcome,
    *,
    correct: bool = True,
    changed: int = 0,
    words: int = 10,
    queries: int = 5,
    similarity: float | None = None,
    reason: str | None = None,
    asked: bool = True,
) -> Attempt:
    return Attempt(
        number,
        "pwws",
        outcome,
        "a",
        "b",
        reason=reason,
        words=words,
        queries=queries,
        similarity=similarity,
        changed=tuple((i, "x", "y") for i in range(changed)),
        before={"label": 0, "value": 0.5, "correct": correct} if asked else {},
    )


def test_metrics_by_hand() -> None:
    rows = [
        attempt(0, "succeeded", changed=2, queries=10, similarity=0.8),
        attempt(1, "succeeded", changed=1, words=5, queries=20, similarity=0.9),
        attempt(2, "failed", changed=9, queries=30),
        attempt(3, "skipped", correct=False, reason="the model is wrong already"),
        attempt(4, "skipped", reason="it holds no word that may be changed", asked=False),
        attempt(5, "skipped", reason="it is too short: the recipe may change no word of it"),
    ]
    metrics = summarise(rows, has_classes=True)
    assert (metrics["examples"], metrics["attacked"], metrics["succeeded"], metrics["skipped"]) == (6, 3, 2, 3)
    assert metrics["success_rate"] == pytest.approx(200 / 3)
    assert metrics["queries"] == 20
    assert metrics["replaced"] == pytest.approx(100 * (0.2 + 0.2) / 2)
    assert metrics["similarity"] == pytest.approx(0.85)
    # Of the five that were asked about: four right before, two of them still right.
    assert metrics["accuracy"] == 80.0
    assert metrics["accuracy_under_attack"] == 40.0
    assert not {"replaced_low", "replaced_high"} & metrics.keys(), "two numbers that are alike have no interval"
    assert skip_reasons(rows) == {row.reason: 1 for row in rows if row.reason}


def test_every_mean_has_its_interval() -> None:
    """Against the normal one, of many: 1.96 standard errors to each side."""
    rng = random.Random(0)
    rows = [
        attempt(
            number,
            "succeeded" if (won := rng.random() < 0.6) else "failed",
            correct=rng.random() < 0.8,
            changed=rng.randint(1, 9),
            queries=rng.randint(5, 50),
            similarity=rng.random() if won else None,
        )
        for number in range(500)
    ]
    won = [row for row in rows if row.outcome == "succeeded"]
    values = {
        "success_rate": [100.0 * (row.outcome == "succeeded") for row in rows],
        "queries": [row.queries for row in rows],
        "replaced": [10.0 * len(row.changed) for row in won],
        "similarity": [row.similarity for row in won if row.similarity is not None],
        "accuracy": [100.0 * row.correct_before for row in rows],
        "accuracy_under_attack": [100.0 * (row.correct_before and row.outcome != "succeeded") for row in rows],
    }
    metrics = summarise(rows, has_classes=True)
    for name, of in values.items():
        half = 1.96 * statistics.stdev(of) / math.sqrt(len(of))
        assert metrics[name] == pytest.approx(statistics.mean(of)), name
        assert metrics[f"{name}_low"] == pytest.approx(statistics.mean(of) - half, abs=0.2 * half), name
        assert metrics[f"{name}_high"] == pytest.approx(statistics.mean(of) + half, abs=0.2 * half), name


def test_where_nothing_was_attacked_there_is_no_rate() -> None:
    metrics = summarise([attempt(0, "skipped", correct=False, reason="r")], has_classes=True)
    assert "success_rate" not in metrics
    assert metrics["accuracy"] == 0.0
    assert summarise([], has_classes=True)["examples"] == 0


def test_the_interval_is_that_of_a_proportion() -> None:
    outcomes = [True] * 300 + [False] * 700
    low, high = rate_interval(outcomes, seed=0)
    exact = stats.binomtest(300, 1000).proportion_ci(method="wilson")
    assert low == pytest.approx(exact.low, abs=0.006)
    assert high == pytest.approx(exact.high, abs=0.006)
    assert rate_interval(outcomes, seed=0) == (low, high)


def test_the_interval_is_wide_where_few_outcomes_are_all_the_same() -> None:
    assert rate_interval([True] * 3, seed=0) == pytest.approx((0.025 ** (1 / 3), 1.0))  # Clopper and Pearson's, by hand
    assert rate_interval([False] * 10, seed=0) == pytest.approx((0.0, 1 - 0.025 ** (1 / 10)))


def test_correlations_before_and_after() -> None:
    rows = [
        Attempt(i, "pwws", "failed", "a", "b", label=gold, before={"value": before}, after={"value": after})
        for i, (gold, before, after) in enumerate([(0, 0.1, 0.9), (2, 0.4, 0.5), (4, 0.8, 0.2), (5, 0.7, 0.1)])
    ]
    found = correlations(rows)
    assert found["spearman_before"] == pytest.approx(
        100 * stats.spearmanr([0, 2, 4, 5], [0.1, 0.4, 0.8, 0.7]).statistic
    )
    assert found["pearson_after"] == pytest.approx(100 * stats.pearsonr([0, 2, 4, 5], [0.9, 0.5, 0.2, 0.1]).statistic)
    assert found["spearman_after"] == pytest.approx(-100.0)
