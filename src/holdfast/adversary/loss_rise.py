"""The rise of an attacked loss, as methods and defences log it."""

from __future__ import annotations

import torch
from torch import Tensor


def loss_rise(before: Tensor, after: Tensor) -> dict[str, Tensor]:
    """Return the diagnostics of an attack in training: ``attack_loss_rise`` and ``attack_loss_share``.

    The rise is after − before, in units of the loss. The share is the rise over the loss after the attack and has no
    unit: with a share near 0 the attack leaves its loss as it was, so that training against it differs little from
    training without it; near 1 almost all of the loss is due to the attack.

    Args:
        before: the loss where the attack starts, a scalar.
        after: the loss where it ends, a scalar of 0 or more; the share is 0 if it is 0.
    """
    rise = after.detach() - before.detach()
    share = torch.where(after.detach() > 0, rise / after.detach(), 0.0)
    return {"attack_loss_rise": rise, "attack_loss_share": share}
