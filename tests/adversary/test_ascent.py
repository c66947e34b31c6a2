"""The ascent of RobustEmbed against a NumPy rendering of its Algorithm 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast.adversary.ascent import MixedAscent, perturbation_gradient
from holdfast.adversary.balls import sentence_norm

MASK = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.float64)
TARGET = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
START = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 1e-3


def loss(delta: torch.Tensor) -> torch.Tensor:
    """Curved in δ, so that the gradient changes along the way."""
    return -((delta - TARGET) ** 4 * MASK.unsqueeze(-1)).sum()


def slope(delta: torch.Tensor) -> torch.Tensor:
    return perturbation_gradient(loss, delta)[0]


def numpy_algorithm_1(ascent: MixedAscent) -> np.ndarray:
    """RobustEmbed, Algorithm 1, for the L-infinity ball, a sentence at a time."""
    result = np.zeros(START.shape)
    for i, length in enumerate((4, 2)):
        target, delta = TARGET[i, :length].numpy(), np.clip(START[i, :length].numpy(), -ascent.radius, ascent.radius)

        def project(x: np.ndarray) -> np.ndarray:
            return np.clip(x, -ascent.radius, ascent.radius)

        for t in range(1, max(ascent.pgd_steps, ascent.fgsm_steps) + 1):
            g = -4 * (delta - target) ** 3
            pgd = project(delta + ascent.pgd_size * g / np.abs(g).max())
            fgsm = project(delta + ascent.fgsm_size * np.sign(g))
            if t <= ascent.pgd_steps and t <= ascent.fgsm_steps:
                delta = ascent.mix * pgd + (1 - ascent.mix) * fgsm
            else:
                delta = pgd if t <= ascent.pgd_steps else fgsm
        result[i, :length] = delta
    return result


def ascent(**changes: Any) -> MixedAscent:
    settings: dict[str, Any] = {"pgd_steps": 5, "fgsm_steps": 5, "pgd_size": 0.03, "fgsm_size": 0.02, "mix": 0.3}
    return MixedAscent(**{**settings, "radius": 0.08, "norm": "inf", **changes})


@pytest.mark.parametrize("changes", [{}, {"pgd_steps": 2}, {"fgsm_steps": 3}, {"radius": 10.0}, {"mix": 0.9}])
def test_mixed_trajectory_matches_algorithm_1(changes: dict[str, Any]) -> None:
    ours = ascent(**changes)
    np.testing.assert_allclose(ours.run(START, MASK, slope).numpy(), numpy_algorithm_1(ours), atol=1e-12)


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
@pytest.mark.parametrize("trajectory", ["mixed", "separate"])
def test_the_loss_rises_and_delta_stays_in_the_ball(norm: Any, trajectory: Any) -> None:
    ours = ascent(norm=norm, trajectory=trajectory)
    delta = ours.run(START, MASK, slope)
    assert loss(delta) > loss(START)
    assert (sentence_norm(delta, MASK, norm) <= 0.08 * (1 + 1e-9)).all()
    assert (delta[1, 2:] == 0).all()


def test_separate_trajectory_is_two_chains_mixed_once() -> None:
    pgd_alone = ascent(mix=1.0).run(START, MASK, slope)
    fgsm_alone = ascent(mix=0.0).run(START, MASK, slope)
    both = ascent(trajectory="separate").run(START, MASK, slope)
    torch.testing.assert_close(both, 0.3 * pgd_alone + 0.7 * fgsm_alone)
    assert not torch.allclose(both, ascent().run(START, MASK, slope))


@pytest.mark.parametrize(("mix", "expected"), [(0.5, 5), (1.0, 2), (0.0, 5)])
def test_a_part_without_share_costs_no_gradient(mix: float, expected: int) -> None:
    calls = []

    def counted(delta: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return slope(delta)

    ascent(mix=mix, pgd_steps=2).run(START, MASK, counted)
    assert len(calls) == expected


def test_a_start_outside_the_ball_is_projected_first() -> None:
    assert ascent(pgd_steps=0, fgsm_steps=0).run(START * 1e6, MASK, slope).abs().max() == pytest.approx(0.08)


def test_gradient_leaves_no_trace_on_parameters() -> None:
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    gradient, value = perturbation_gradient(lambda delta: (delta * weight).square().sum(), START)
    torch.testing.assert_close(gradient, 2 * START)
    assert weight.grad is None
    assert not value.requires_grad


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
@pytest.mark.parametrize("trajectory", ["mixed", "separate"])
def test_the_share_that_projections_move_tells_whether_the_ball_binds(norm: Any, trajectory: Any) -> None:
    free: list[torch.Tensor] = []
    ascent(norm=norm, trajectory=trajectory, radius=10.0).run(START, MASK, slope, projected=free)
    assert len(free) == 10, "one entry for each of two parts in five steps"
    assert torch.stack(free).eq(0).all()
    bound: list[torch.Tensor] = []
    ascent(norm=norm, trajectory=trajectory, radius=0.01).run(START, MASK, slope, projected=bound)
    shares = torch.stack(bound)
    assert shares.max() == 1.0, "padding does not count"
    assert (shares >= 0).all()
    assert (shares <= 1).all()


def test_one_coordinate_that_is_moved_is_counted() -> None:
    one = ascent(pgd_steps=0, fgsm_steps=1, mix=0.0, fgsm_size=0.05, radius=0.1)
    start = torch.zeros_like(START)
    start[0, 0, 0] = 0.09
    found: list[torch.Tensor] = []
    one.run(start, MASK, lambda delta: torch.ones_like(delta), projected=found)
    (share,) = found
    assert share.item() == pytest.approx(1 / (6 * 3))  # six real tokens of three coordinates
