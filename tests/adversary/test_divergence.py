"""Divergences against SciPy's, their derivatives against differences, and analytic points."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr, softmax

from holdfast.adversary.divergence import Divergence, divergence_between

KINDS: tuple[Divergence, ...] = get_args(Divergence)


def draw(seed: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
def test_values_match_scipy(kind: Divergence, scale: float) -> None:
    clean, perturbed = draw(0, scale), draw(1, scale)
    p, q = softmax(clean.numpy(), axis=1), softmax(perturbed.numpy(), axis=1)
    expected = {
        "kl": rel_entr(p, q).sum(1),
        "symmetric-kl": (rel_entr(p, q).sum(1) + rel_entr(q, p).sum(1)) / 2,
        "js": jensenshannon(p, q, axis=1) ** 2,
    }[kind]
    np.testing.assert_allclose(divergence_between(clean, perturbed, kind).numpy(), expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_match_differences(kind: Divergence) -> None:
    clean, perturbed = draw(2).requires_grad_(), draw(3).requires_grad_()
    assert torch.autograd.gradcheck(lambda p, q: divergence_between(p, q, kind), (clean, perturbed))


@pytest.mark.parametrize("kind", KINDS)
def test_zero_for_equal_distributions_alone(kind: Divergence) -> None:
    clean = draw(4)
    torch.testing.assert_close(divergence_between(clean, clean + 3.0, kind), torch.zeros(5, dtype=torch.float64))
    assert (divergence_between(clean, draw(5), kind) > 1e-3).all()


def test_two_coordinates_by_hand() -> None:
    """P = (¾, ¼), Q = (½, ½)."""
    clean, perturbed = torch.tensor([[3.0, 1.0]]).log(), torch.tensor([[1.0, 1.0]]).log()
    forward = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    backward = 0.5 * math.log(2 / 3) + 0.5 * math.log(2)
    assert divergence_between(clean, perturbed, "kl").item() == pytest.approx(forward, rel=1e-5)
    assert divergence_between(perturbed, clean, "kl").item() == pytest.approx(backward, rel=1e-5)
    assert divergence_between(clean, perturbed, "symmetric-kl").item() == pytest.approx((forward + backward) / 2)


def test_jensen_shannon_reaches_ln_2_and_stays_finite() -> None:
    far = torch.tensor([[300.0, 0.0]]), torch.tensor([[0.0, 300.0]])
    leaf = far[1].clone().requires_grad_()
    value = divergence_between(far[0], leaf, "js")
    assert value.item() == pytest.approx(math.log(2), rel=1e-6)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    assert torch.isfinite(gradient).all()
