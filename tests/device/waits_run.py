"""Run by test_device_waits.py in a process of its own: the harness itself, and what a training step waits for."""

from __future__ import annotations

import pytest
import torch
from second_device import DEVICE_TYPE, numbers, register, second_device
from sentence_transformers.util import get_device_name
from torch import nn

register()


def mixing_is_refused() -> None:
    """What CUDA refuses raises, and what it takes does not."""
    here = torch.arange(4.0)
    with second_device():
        there = here.to(DEVICE_TYPE)
        assert there.device.type == DEVICE_TYPE
        for mixed in (lambda: here + there, lambda: torch.cat([here, there]), lambda: here[there.long()]):
            with pytest.raises(RuntimeError, match="two devices"):
                mixed()
        with pytest.raises(TypeError, match=r"use \.cpu\(\) first"):
            there.numpy()
        assert torch.equal(numbers(there * torch.tensor(2.0)), here * 2)  # a scalar of the CPU may be mixed
        assert there[[0, 3]].tolist() == [0.0, 3.0]
        assert (there.cpu().numpy() == here.numpy()).all()


def a_model_moves_there() -> None:
    """A module's parameters and gradients are on the device, with the CPU's numbers."""
    layer = nn.Linear(3, 2)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with second_device():
        layer.to(DEVICE_TYPE)
        layer(torch.ones(1, 3, device=DEVICE_TYPE)).sum().backward()
        assert {parameter.device.type for parameter in layer.parameters()} == {DEVICE_TYPE}
        assert layer.weight.grad is not None
        assert layer.weight.grad.device.type == DEVICE_TYPE
        assert all(torch.equal(numbers(value), before[name]) for name, value in layer.state_dict().items())


def waits_are_counted() -> None:
    """Each kind of wait counts one."""
    with second_device() as waits:
        there = torch.arange(4.0).to(DEVICE_TYPE)
        expected = {"copy in": 1}
        for kind, call in {
            "item": lambda: there[0].item(),
            "tolist": lambda: there.tolist(),
            "copy out": lambda: there.cpu(),
            "nonzero": lambda: there.nonzero(),
            "boolean mask": lambda: there[there > 1],
        }.items():
            call()
            expected[kind] = expected.get(kind, 0) + 1
        counted = {kind: count for (kind, _), count in waits.counted.items()}
        assert counted == expected, waits.describe()
        waits.clear()
        (there * 2).masked_fill(there > 1, 0.0).sum()
        assert waits.total == 0, waits.describe()


def nothing_is_left() -> None:
    """Outside the context the libraries choose the CPU, and torch works as before."""
    with second_device():
        assert torch.get_device_module(DEVICE_TYPE).is_available()
    assert not torch.get_device_module(DEVICE_TYPE).is_available()
    assert get_device_name() == "cpu"
    weight = torch.ones(3, requires_grad=True)
    (weight * 2).sum().backward()
    assert torch.equal(weight.grad, torch.full((3,), 2.0))  # type: ignore[arg-type]
