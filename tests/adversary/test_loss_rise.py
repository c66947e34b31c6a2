"""The rise of an attacked loss: in its units, and as a share of the loss."""

from __future__ import annotations

import pytest
import torch

from holdfast.adversary.loss_rise import loss_rise


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [(0.5, 2.0, 0.75), (2.0, 2.0, 0.0), (2.0, 1.0, -1.0), (0.0, 3.0, 1.0), (0.0, 0.0, 0.0)],
)
def test_the_share_is_that_of_the_loss_after_the_attack(before: float, after: float, share: float) -> None:
    found = loss_rise(torch.tensor(before, requires_grad=True), torch.tensor(after, requires_grad=True))
    assert found.keys() == {"attack_loss_rise", "attack_loss_share"}
    assert found["attack_loss_rise"].item() == pytest.approx(after - before)
    assert found["attack_loss_share"].item() == pytest.approx(share)
    assert not any(value.requires_grad for value in found.values())
