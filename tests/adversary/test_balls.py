"""Norm balls against slow references: a numerical projection, NumPy norms and analytic points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from holdfast.adversary.balls import NORMS, Norm, per_coordinate, project, sentence_norm, unit_direction

LENGTHS = (4, 2, 3)
MASK = torch.tensor([[1.0] * n + [0.0] * (4 - n) for n in LENGTHS], dtype=torch.float64)


def draw(seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 4, 5, generator=generator, dtype=torch.float64) * scale


def reference_norm(row: np.ndarray, norm: Norm) -> float:
    if norm == "inf":
        return float(np.abs(row).max())
    power = int(norm)
    return float(np.mean(np.abs(row) ** power) ** (1 / power))


@pytest.mark.parametrize("norm", NORMS)
def test_norm_is_the_power_mean_over_real_tokens(norm: Norm) -> None:
    delta = draw()
    for row, length, value in zip(delta, LENGTHS, sentence_norm(delta, MASK, norm), strict=True):
        assert value.item() == pytest.approx(reference_norm(row[:length].numpy(), norm), abs=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_the_vector_of_equal_coordinates_lies_on_every_ball(norm: Norm) -> None:
    signs = draw(1).sign() * 0.3
    torch.testing.assert_close(sentence_norm(signs, MASK, norm), torch.full((3,), 0.3, dtype=torch.float64))


@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_the_nearest_point_of_the_ball(norm: Norm) -> None:
    delta, radius = draw(2), 0.2
    projected = project(delta, MASK, norm, radius)
    assert (sentence_norm(projected, MASK, norm) <= radius * (1 + 1e-12)).all()
    for row, length, ours in zip(delta, LENGTHS, projected, strict=True):
        point = row[:length].flatten().numpy()
        n = point.size
        if norm == "inf":
            bounds, constraints = [(-radius, radius)] * n, []
            start = np.zeros(n)
            found = minimize(lambda x, p=point: ((x - p) ** 2).sum(), start, bounds=bounds, constraints=constraints).x
        else:
            # |x| = plus + minus makes the 1-norm smooth; for the 2-norm the split does no harm.
            def split(x: np.ndarray) -> np.ndarray:
                return x[: len(x) // 2] - x[len(x) // 2 :]

            def room(x: np.ndarray, norm: Norm = norm) -> float:
                return radius - x.sum() / (len(x) // 2) if norm == "1" else radius**2 - (split(x) ** 2).mean()

            found = split(
                minimize(
                    lambda x, p=point: ((split(x) - p) ** 2).sum(),
                    np.full(2 * n, 1e-3),
                    bounds=[(0, None)] * (2 * n),
                    constraints=[{"type": "ineq", "fun": room}],
                    options={"maxiter": 500, "ftol": 1e-12},
                ).x
            )
        np.testing.assert_allclose(ours[:length].flatten().numpy(), found, atol=2e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_inside_the_ball_nothing_moves_and_padding_becomes_zero(norm: Norm) -> None:
    delta = draw(3, scale=1e-3)
    projected = project(delta, MASK, norm, 0.1)
    torch.testing.assert_close(projected, delta * MASK.unsqueeze(-1), rtol=0, atol=0)
    assert (projected[1, 2:] == 0).all()


@pytest.mark.parametrize("norm", NORMS)
def test_direction_has_norm_one_and_a_zero_gradient_stays_zero(norm: Norm) -> None:
    gradient = draw(4)
    gradient[1] = 0
    direction = unit_direction(gradient, MASK, norm)
    torch.testing.assert_close(sentence_norm(direction, MASK, norm), torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    assert torch.isfinite(direction).all()


@pytest.mark.parametrize("scale", [1.0, 1e-15, 1e-25, 1e-36])
@pytest.mark.parametrize("norm", NORMS)
def test_the_direction_of_a_tiny_gradient_has_norm_one_in_fp32(norm: Norm, scale: float) -> None:
    direction = unit_direction(draw(4).float() * scale, MASK.float(), norm)
    torch.testing.assert_close(sentence_norm(direction, MASK.float(), norm), torch.ones(3))
    torch.testing.assert_close(direction, unit_direction(draw(4), MASK, norm).float(), rtol=1e-4, atol=1e-5)


def test_longer_padding_changes_nothing() -> None:
    delta = draw(5)
    wide = torch.nn.functional.pad(delta, (0, 0, 0, 3), value=7.0)
    wide_mask = torch.nn.functional.pad(MASK, (0, 3))
    for norm in NORMS:
        torch.testing.assert_close(project(wide, wide_mask, norm, 0.2)[:, :4], project(delta, MASK, norm, 0.2))


@pytest.mark.parametrize("norm", NORMS)
def test_per_coordinate_sizes_are_those_of_the_ordinary_norm(norm: Norm) -> None:
    delta = draw(6)
    projected = project(delta, MASK, norm, per_coordinate(0.7, MASK, 5, norm))
    for row, length in zip(projected, LENGTHS, strict=True):
        ordinary = np.linalg.norm(row[:length].flatten().numpy(), ord=float(norm))
        assert ordinary == pytest.approx(0.7, rel=1e-9)  # the points drawn are all outside


@pytest.mark.parametrize("norm", NORMS)
def test_each_sentence_may_have_a_radius_of_its_own(norm: Norm) -> None:
    delta, radii = draw(7), torch.tensor([0.05, 9.0, 0.3], dtype=torch.float64)
    together = project(delta, MASK, norm, radii)
    for i, radius in enumerate(radii.tolist()):
        alone = project(delta[i : i + 1], MASK[i : i + 1], norm, radius)
        torch.testing.assert_close(together[i : i + 1], alone, rtol=1e-12, atol=0)
    torch.testing.assert_close(together[1], delta[1] * MASK[1, :, None])
