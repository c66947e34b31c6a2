"""The losses of a classifier: against NumPy and SciPy, for classes and scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

from holdfast.classifiers.losses import divergence, task_loss


def test_the_loss_of_classes_is_the_mean_cross_entropy() -> None:
    logits, labels = np.random.default_rng(0).normal(size=(5, 3)) * 3, np.array([0, 2, 1, 1, 0])
    wanted = -log_softmax(logits, axis=1)[np.arange(5), labels].mean()
    assert float(task_loss(torch.tensor(logits), torch.tensor(labels))) == pytest.approx(wanted, rel=1e-12)


def test_the_loss_of_scores_is_the_mean_squared_error() -> None:
    scores, labels = np.random.default_rng(1).normal(size=(4, 1)), np.array([0.0, 5.0, 2.5, 1.0])
    wanted = ((scores[:, 0] - labels) ** 2).mean()
    assert float(task_loss(torch.tensor(scores), torch.tensor(labels))) == pytest.approx(wanted, rel=1e-12)
    mixed = task_loss(torch.tensor(scores, dtype=torch.float32), torch.tensor(labels))
    assert mixed.dtype == torch.float32
    assert float(mixed) == pytest.approx(wanted, rel=1e-6)


def test_the_divergence_of_classes_is_the_sum_of_both_kullback_leiblers() -> None:
    draw = np.random.default_rng(2)
    mine, theirs = draw.normal(size=(6, 4)) * 2, draw.normal(size=(6, 4)) * 2
    p, q = softmax(mine, axis=1), softmax(theirs, axis=1)
    wanted = np.mean([entropy(a, b) + entropy(b, a) for a, b in zip(p, q, strict=True)])
    assert float(divergence(torch.tensor(mine), torch.tensor(theirs))) == pytest.approx(wanted, rel=1e-10)
    assert float(divergence(torch.tensor(mine), torch.tensor(mine))) == 0.0
    assert float(divergence(torch.tensor(mine), torch.tensor(mine) + 3.0)) == pytest.approx(0.0, abs=1e-12)


def test_the_divergence_of_scores_is_the_squared_difference() -> None:
    mine, theirs = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.5]])
    assert float(divergence(mine, theirs)) == pytest.approx((4.0 + 0.25) / 2)


def test_gradient_flows_into_both_sides_of_the_divergence() -> None:
    mine, theirs = torch.randn(3, 2, dtype=torch.float64, requires_grad=True), torch.randn(3, 2, dtype=torch.float64)
    theirs.requires_grad_()
    assert torch.autograd.gradcheck(divergence, (mine, theirs))


def test_half_precision_is_computed_in_fp32() -> None:
    logits = torch.tensor([[10.0, 9.96875]], dtype=torch.bfloat16)
    assert task_loss(logits, torch.tensor([1])).dtype == torch.float32
    assert float(divergence(logits, logits + 0.0625)) == pytest.approx(
        float(divergence(logits.float(), (logits + 0.0625).float()))
    )
