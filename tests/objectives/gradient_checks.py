"""What the comparisons with slow references share: gradients by name, and what it means that they agree."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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


def another_order() -> Tensor:
    """An order of 8 sentences that is not their own."""
    return torch.randperm(8, generator=torch.Generator().manual_seed(0))


def reordered(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch of 8 sentences in another order."""
    order = another_order()
    return {key: value[order] if isinstance(value, Tensor) else value for key, value in batch.items()}


def wider(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch with five more columns of padding."""
    return {key: F.pad(value, (0, 5)) if isinstance(value, Tensor) else value for key, value in batch.items()}
