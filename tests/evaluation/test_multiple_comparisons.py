"""Holm's correction against an example by hand and SciPy-free rules."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.evaluation.multiple_comparisons import holm


def test_holm_by_hand() -> None:
    # Sorted: 0.01 x4 = 0.04; 0.015 x3 = 0.045; 0.03 x2 = 0.06; 0.04 x1 = 0.04, not below the one before.
    assert holm([0.03, 0.01, 0.04, 0.015]) == pytest.approx([0.06, 0.04, 0.06, 0.045])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_one_false_finding_among_many_is_rare() -> None:
    rng = np.random.default_rng(0)
    false = [min(holm(rng.random(20).tolist())) < 0.05 for _ in range(2000)]
    assert 0.035 < np.mean(false) < 0.065  # 5 %: a standard deviation is 0.5 %
    alone = [min(rng.random(20)) < 0.05 for _ in range(2000)]
    assert np.mean(alone) > 0.5
