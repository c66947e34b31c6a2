"""Learned negatives against SGD and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast.adversary import learned_negatives as module
from holdfast.adversary.learned_negatives import LearnedNegatives

SETTINGS: dict[str, Any] = {"learning_rate": 0.3, "momentum": 0.9}


def build(count: int = 4, **changes: Any) -> LearnedNegatives:
    torch.manual_seed(0)
    return LearnedNegatives(count, 5, **{**SETTINGS, **changes}).double()


def target(seed: int = 1) -> torch.Tensor:
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_trajectory_is_that_of_sgd_with_momentum(weight_decay: float) -> None:
    ours = build(weight_decay=weight_decay)
    theirs = ours.vectors.clone().requires_grad_()
    sgd = torch.optim.SGD([theirs], lr=0.3, momentum=0.9, weight_decay=weight_decay, maximize=True)
    for step in range(4):
        (ours() * target(step)).sum().backward()
        sgd.zero_grad()
        (torch.nn.functional.normalize(theirs, dim=-1) * target(step)).sum().backward()
        assert ours._gradient is not None
        torch.testing.assert_close(ours._gradient, theirs.grad, rtol=1e-12, atol=1e-14)
        ours.ascend()
        sgd.step()
        torch.testing.assert_close(ours.vectors, theirs.detach(), rtol=1e-12, atol=1e-14)
        assert ours.gradient_norm.item() == pytest.approx(theirs.grad.norm().item())


def test_two_steps_in_numpy() -> None:
    ours = build()
    n, v, c = ours.vectors.numpy().copy(), np.zeros((4, 5)), target().numpy()
    for _ in range(2):
        (ours() * target()).sum().backward()
        ours.ascend()
        for j in range(4):
            length = np.linalg.norm(n[j])
            unit = n[j] / length
            v[j] = 0.9 * v[j] + (c[j] - (c[j] @ unit) * unit) / length
            n[j] = n[j] + 0.3 * v[j]
    np.testing.assert_allclose(ours.vectors.numpy(), n, rtol=1e-12)
    np.testing.assert_allclose(ours.velocity.numpy(), v, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_normalised_step_has_the_same_angle_whatever_the_gradient_and_the_length_are(scale: float) -> None:
    plain, scaled = (build(step="normalised").float() for _ in range(2))
    scaled.vectors.mul_(50.0)
    for seed in (1, 2):
        for ours, factor in ((plain, 1.0), (scaled, scale)):
            (ours() * target(seed).float() * factor).sum().backward()
            ours.ascend()
        torch.testing.assert_close(scaled.vectors / 50.0, plain.vectors)
        torch.testing.assert_close(scaled.turned, plain.turned)
    one = build(step="normalised", momentum=0.0, learning_rate=3e-3)
    lengths = one.vectors.norm(dim=-1)
    (one() * target()).sum().backward()
    one.ascend()
    assert one.turned.item() == pytest.approx(np.degrees(np.arctan(3e-3)))
    torch.testing.assert_close(one.vectors.norm(dim=-1), lengths)


def test_the_angle_of_a_step_by_arccos() -> None:
    for step in ("raw", "normalised"):
        ours = build(step=step)
        before = ours.vectors.clone()
        assert ours.turned == 0.0
        (ours() * target()).sum().backward()
        ours.ascend()
        cosines = torch.cosine_similarity(before, ours.vectors).numpy()
        assert ours.turned.item() == pytest.approx(np.degrees(np.arccos(cosines)).mean(), rel=1e-6)


def test_a_negative_without_a_gradient_stays() -> None:
    ours = build(step="normalised")
    before = ours.vectors.clone()
    (ours()[:2] * target()[:2]).sum().backward()
    ours.ascend()
    torch.testing.assert_close(ours.vectors[2:], before[2:], rtol=1e-14, atol=0)
    assert not torch.isclose(ours.vectors[:2], before[:2]).all(dim=1).any()


def test_they_are_of_unit_length_and_climb() -> None:
    ours = build()
    ours.vectors.mul_(7.0)
    values = []
    for _ in range(5):
        found = ours()
        torch.testing.assert_close(found.norm(dim=-1), torch.ones(4, dtype=torch.float64))
        value = (found * target()).sum()
        values.append(value.item())
        value.backward()
        ours.ascend()
    assert values == sorted(values)
    assert values[-1] > values[0] + 0.05


def test_nothing_moves_without_a_backward_pass() -> None:
    ours = build()
    before = ours.vectors.clone()
    ours.ascend()
    ours()
    with torch.no_grad():
        assert not ours().requires_grad
    ours.ascend()
    assert torch.equal(ours.vectors, before)
    (ours() * target()).sum().backward()
    ours.ascend()
    once = ours.vectors.clone()
    ours.ascend()
    assert torch.equal(ours.vectors, once), "a gradient is used once, and the velocity does not run on alone"


def test_gradients_of_several_batches_add_up() -> None:
    one, two = build(), build()
    ((one() * target(1)).sum() / 2 + (one() * target(2)).sum() / 2).backward()
    for seed in (1, 2):
        ((two() * target(seed)).sum() / 2).backward()
    one.ascend()
    two.ascend()
    torch.testing.assert_close(one.vectors, two.vectors, rtol=1e-12, atol=1e-14)


def test_the_gradient_is_the_mean_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, expected = build(), build()
    other = target(9)  # what another process's gradient would be
    monkeypatch.setattr(module, "mean_over_processes", lambda mine: (mine + other) / 2)
    (ours() * target()).sum().backward()
    ours.ascend()
    monkeypatch.undo()
    (expected() * target()).sum().backward()
    expected._gradient = (expected._gradient + other) / 2
    expected.ascend()
    assert torch.equal(ours.vectors, expected.vectors)


def test_they_are_state_and_not_parameters() -> None:
    ours = build()
    assert list(ours.parameters()) == []
    assert sorted(ours.state_dict()) == ["vectors", "velocity"]
    (ours() * target()).sum().backward()
    ours.ascend()
    other = build()
    other.load_state_dict(ours.state_dict())
    for each in (ours, other):
        (each() * target(2)).sum().backward()
        each.ascend()
    assert torch.equal(ours.vectors, other.vectors)


def test_there_may_be_none() -> None:
    ours = build(0)
    assert ours().shape == (0, 5)
    (torch.ones(2, 5, dtype=torch.float64) @ ours().T).sum().backward()
    ours.ascend()
    assert ours.gradient_norm == 0


@pytest.mark.parametrize(
    ("count", "changes", "message"),
    [
        (-1, {}, "number of negatives"),
        (4, {"learning_rate": 0.0}, "learning rate"),
        (4, {"momentum": 1.0}, "momentum"),
        (4, {"weight_decay": -1.0}, "weight decay"),
    ],
)
def test_wrong_settings_are_refused(count: int, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(count, **changes)
