"""Interpolation of weights with the original encoder."""

from __future__ import annotations

import pytest
import torch

from holdfast.hardening.goal.interpolation import interpolated

BEFORE = {"w": torch.tensor([0.1, 1.0]), "head": torch.zeros(2), "seen": torch.tensor(3)}
BEFORE["fine"] = torch.tensor([0.1], dtype=torch.float64)
AFTER = {"w": torch.tensor([0.3, 2.0]), "head": torch.ones(3), "seen": torch.tensor(9)}
AFTER["fine"] = torch.tensor([0.3], dtype=torch.float64)


def test_the_ends_are_exact() -> None:
    at_0, at_1 = (interpolated(BEFORE, AFTER, weight, ("w", "head", "fine")) for weight in (0.0, 1.0))
    assert all(torch.equal(at_0[name], BEFORE[name]) for name in BEFORE)
    assert all(torch.equal(at_1[name], AFTER[name]) for name in AFTER)


def test_between_them_parameters_of_the_same_shape_are_mixed() -> None:
    mixed = interpolated(BEFORE, AFTER, 0.25, ("w", "head"))
    assert mixed["w"].tolist() == pytest.approx([0.15, 1.25])
    assert torch.equal(mixed["head"], AFTER["head"])
    assert int(mixed["seen"]) == 9
    half = interpolated({"w": BEFORE["w"].bfloat16()}, {"w": AFTER["w"].bfloat16()}, 0.5, ("w",))
    assert half["w"].dtype == torch.bfloat16
