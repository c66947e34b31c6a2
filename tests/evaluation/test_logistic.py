"""Many regressions at once are the same as scikit-learn's, one by one and converged."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast.errors import UserError
from holdfast.evaluation.logistic import Regressions


def features(n: int, d: int, seed: int) -> np.ndarray:
    """Far from the origin, unequal in scale and correlated, as raw encoders' vectors are."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, d)) * np.geomspace(5.0, 0.02, d) @ rng.normal(size=(d, d))
    return mixed + 3.0 * rng.normal(size=d)


@pytest.mark.parametrize("classes", [2, 4])
def test_weights_are_scikit_learns(classes: int) -> None:
    x = features(300, 12, seed=1)
    rng = np.random.default_rng(2)
    y = (x @ rng.normal(size=(12, classes)) + 4.0 * rng.gumbel(size=(300, classes))).argmax(axis=1)
    rows = np.array([np.arange(300) % 3 != part for part in range(3)] * 2)
    strengths = [0.25, 0.25, 0.25, 8.0, 8.0, 8.0]
    fit = Regressions(x, y, classes).fit(rows, strengths)
    predicted = fit.predict(x)
    for model, (used, strength) in enumerate(zip(rows, strengths, strict=True)):
        own = LogisticRegression(C=strength, tol=1e-10, max_iter=100_000).fit(x[used], y[used])
        expected = own.coef_.T
        assert fit.weight[:, model].numpy() == pytest.approx(expected, abs=5e-3 * np.abs(expected).max())
        scores = x @ fit.weight[:, model].numpy() + fit.bias[model].numpy()
        theirs = own.decision_function(x).reshape(300, -1)
        spread = theirs.std()
        # Several classes: what is added to all logits alike changes nothing.
        shift = (scores - theirs).mean(axis=1, keepdims=True) if classes > 2 else 0.0
        assert np.abs(scores - theirs - shift).max() < 3e-2 * spread
        assert (predicted[model] == own.predict(x)).mean() > 0.995


def test_a_model_knows_only_its_rows_and_not_its_neighbours() -> None:
    x = features(120, 6, seed=3)
    y = np.random.default_rng(4).integers(2, size=120)
    used = np.arange(120) < 90
    together = Regressions(x, y, 2).fit([used, np.ones(120), used], [1.0, 0.25, 8.0])
    changed_x, changed_y = x.copy(), y.copy()
    changed_x[~used] += 50.0
    changed_y[~used] = 1 - changed_y[~used]
    alone = Regressions(changed_x, changed_y, 2).fit([used], [8.0])
    expected = alone.weight[:, 0].numpy()
    assert together.weight[:, 2].numpy() == pytest.approx(expected, abs=5e-3 * np.abs(expected).max())
    assert together.weight[:, 0].numpy() != pytest.approx(expected, rel=0.05)


def test_separable_classes_and_constant_coordinates_settle() -> None:
    y = np.arange(60) % 2
    x = np.stack([1e4 * (2.0 * y - 1.0), np.full(60, 7.0), np.zeros(60)], axis=1)
    fit = Regressions(x, y, 2).fit(np.ones((2, 60)), [0.25, 32.0])
    assert np.isfinite(fit.weight.numpy()).all()
    assert (fit.predict(x) == y).all()


def test_iterations_that_do_not_settle_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.evaluation.logistic._MAX_ITERATIONS", 1)
    x = features(50, 4, seed=5)
    with pytest.raises(UserError, match="does not settle"):
        Regressions(x, np.arange(50) % 2, 2).fit(np.ones((1, 50)), [8.0])
