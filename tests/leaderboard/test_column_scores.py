"""Scores of columns: means, and intervals of means."""

from __future__ import annotations

import numpy as np
import pytest
from board_samples import part_result

from holdfast.evaluation.intervals import rate_interval, spearman_interval
from holdfast.leaderboard.column_scores import column_score, mean_score, named_rows, own_scores, row_interval, scores_of
from holdfast.leaderboard.suite import Column, the_suite


def test_the_interval_of_a_mean_of_disjoint_data_is_that_of_independent_errors() -> None:
    score = mean_score([50.0, 60.0], [(44.0, 53.0), (52.0, 64.0)], disjoint=True)
    assert score == {"value": 55.0, "low": 55.0 - 5.0, "high": 55.0 + 2.5}  # (6, 8) -> 10 / 2 and (3, 4) -> 5 / 2


def test_the_interval_of_a_mean_of_shared_data_holds_for_any_dependence() -> None:
    score = mean_score([50.0, 60.0], [(44.0, 53.0), (52.0, 64.0)], disjoint=False)
    assert score == {"value": 55.0, "low": 55.0 - 7.0, "high": 55.0 + 3.5}
    draw = np.random.default_rng(0)
    for shared in (0.0, 0.5, 1.0):  # 95 % of means are inside, or more
        common, own = draw.normal(size=20_000), draw.normal(size=(3, 20_000))
        errors = np.sqrt(shared) * common + np.sqrt(1 - shared) * own
        wide = mean_score([0.0] * 3, [(-1.96, 1.96)] * 3, disjoint=False)
        exact = mean_score([0.0] * 3, [(-1.96, 1.96)] * 3, disjoint=True)
        inside = (np.abs(errors.mean(axis=0)) < wide["high"]).mean()
        assert inside > 0.945
        if shared == 0.0:
            assert (np.abs(errors.mean(axis=0)) < exact["high"]).mean() == pytest.approx(0.95, abs=0.01)


def test_a_row_has_its_own_interval_or_one_from_its_items() -> None:
    assert row_interval(
        {"metrics": {"stability": 0.5, "stability_low": 0.4, "stability_high": 0.7}}, "stability", 1
    ) == (0.4, 0.7)
    gold, found = list(range(30)), [*range(20), *range(29, 19, -1)]
    row = {"metrics": {"spearman": 90.0}, "items": {"gold": gold, "similarity": found}}
    assert row_interval(row, "spearman", 3) == spearman_interval(gold, found, seed=3)
    right = [1, 1, 0, 1, 0, 1]
    low, high = rate_interval(right, seed=3)
    assert row_interval({"metrics": {}, "items": {"correct": right}}, "accuracy", 3) == (100 * low, 100 * high)
    low, high = rate_interval([1] * 9, seed=3)
    assert low < 1.0, "all right: the exact interval"
    assert row_interval({"metrics": {}, "items": {"recall@1": [1.0] * 9}}, "recall@1", 3) == (100 * low, 100 * high)


def test_a_column_of_successes_counts_the_rest() -> None:
    row = {"task": "audit-typos", "split": "all", "n": 9, "metrics": {"s": 30.0, "s_low": 20.0, "s_high": 45.0}}
    column = Column("c", "C", "", "robustness", "audit", "s", ["typos"], against=100.0)
    assert column_score(column, [row], 1) == {"value": 70.0, "low": 55.0, "high": 80.0, "n": 9.0}


def test_rows_have_names_by_form() -> None:
    rows = [{"task": "stsb", "split": "test"}, {"task": "stsb", "split": "test", "form": "int8"}]
    rows += [{"task": "audit-bidi", "split": "reversed"}, {"task": "audit-advsts", "split": "dev"}]
    assert named_rows(rows) == {"stsb/test": rows[0], "bidi.reversed": rows[2], "advsts": rows[3]}
    assert named_rows(rows, "int8") == {"stsb/test": rows[1]}


def test_overall_columns_need_all_of_theirs() -> None:
    suite = the_suite()
    rows = {part: part_result(part, "m", suite)["results"] for part in suite.parts}
    whole = scores_of(suite, rows)
    assert set(whole) == set(suite.titles())
    quality = [whole[name]["value"] for name in ("sts", "transfer", "retrieval")]
    assert whole["quality"]["value"] == pytest.approx(sum(quality) / 3)
    assert whole["hold"]["value"] == pytest.approx(90.0)
    assert whole["adversarial_typos"]["value"] == pytest.approx(70.0)
    del rows["transfer"]
    part = scores_of(suite, rows)
    assert "quality" not in part
    assert "robustness" in part


def test_the_part_without_data_gives_points() -> None:
    suite = the_suite()
    own = own_scores(suite, part_result("own", "m", suite)["results"])
    assert own["typing"] == {"value": 90.0, "n": 60.0}
    assert own["number"] == {"value": 40.0, "n": 60.0}
    assert len(own) == 10
