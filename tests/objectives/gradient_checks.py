"""What the comparisons with slow references share: gradients by name, and what it means that they agree."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def gradients(loss: Tensor, module: nn.Module) -> dict[str, Tensor]:
    """The gradient of a loss for each parameter that has one."""
    module.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def assert_same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """The same parameters have one, equal to 1e-6 in fp64, and they are not all zero."""
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-9)
    assert max(grad.abs().max() for grad in theirs.values()) > 1e-3
