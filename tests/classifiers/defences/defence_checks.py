"""A step as a trainer makes it, and its loss and gradients compared with a reference's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.classifiers.defences import Moment, TaskBatch

NOW = Moment(step=0, steps=10, epoch=0.0)


def gradients(model: Any) -> dict[str, Tensor]:
    """The gradients that are there, which are taken away."""
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def trained_on(defence: Any, model: Any, batch: TaskBatch, moment: Moment = NOW) -> tuple[float, dict[str, Tensor]]:
    """The sum of a step's losses and its gradients, made as a trainer makes them."""
    total = 0.0
    for loss in defence.losses(model, batch, moment):
        loss.backward()
        total += float(loss.detach())
    return total, gradients(model)


def reference(model: Any, loss: Tensor) -> tuple[float, dict[str, Tensor]]:
    """A loss and its gradients."""
    loss.backward()
    return float(loss.detach()), gradients(model)


def same(found: tuple[float, dict[str, Tensor]], wanted: tuple[float, dict[str, Tensor]]) -> None:
    """Loss and gradients are equal to rounding, and there are some."""
    assert found[0] == pytest.approx(wanted[0], rel=1e-9)
    assert found[1].keys() == wanted[1].keys()
    assert len(wanted[1]) > 30
    for name, value in wanted[1].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-7, atol=1e-10, msg=name)
    assert max(float(value.abs().max()) for value in wanted[1].values()) > 1e-3
