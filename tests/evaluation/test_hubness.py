"""k-occurrence and the detector of unusual documents."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.evaluation.hubness import detector, k_occurrence


def test_k_occurrence_counts_the_queries_that_have_a_document_among_their_nearest() -> None:
    documents = np.eye(4, dtype=np.float32)
    queries = np.array([[3, 2, 1, 0], [3, 1, 2, 0], [0, 2, 0, 3]], dtype=np.float32)
    assert k_occurrence(queries, documents, 1).tolist() == [2, 0, 0, 1]
    assert k_occurrence(queries, documents, 2).tolist() == [2, 2, 1, 1]
    assert k_occurrence(queries, documents, 9).sum() == 3 * 4


def test_the_sum_of_counts_is_k_per_query() -> None:
    rng = np.random.default_rng(0)
    queries, documents = rng.normal(size=(30, 8)).astype(np.float32), rng.normal(size=(50, 8)).astype(np.float32)
    assert k_occurrence(queries, documents, 7).sum() == 30 * 7


def test_the_threshold_is_set_on_one_half_and_false_alarms_are_counted_on_the_other() -> None:
    clean = list(range(100))
    found = detector(clean, [1000.0, 5.0], seed=3)
    order = np.random.default_rng(3).permutation(100)
    first, second = order[:50], order[50:]
    assert found.threshold == np.percentile(first, 95, method="higher")
    assert found.false_alarms[0] == pytest.approx(100 * np.mean(second > found.threshold))
    assert found.recall[0] == 50.0
    assert found.clean == (50, 50)
    low, high = found.false_alarms[1:]
    assert low <= found.false_alarms[0] <= high
    assert {name.removeprefix("hub_") for name in found.metrics("hub")} == {
        *("threshold", "false_alarms", "false_alarms_low", "false_alarms_high"),
        *("recall", "recall_low", "recall_high"),
    }
