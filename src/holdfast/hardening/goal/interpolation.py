"""Interpolation of weights between an encoder before and after a training (WiSE-FT, Wortsman et al. 2022)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from holdfast.adapters import is_adapter_weight

Weights = Mapping[str, Tensor]

WEIGHTS = (0.25, 0.5, 0.75, 1.0)
"""The weights of the trained encoder that are measured; at 0 it is the original."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of all parameters and buffers of a model, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def interpolated(original: Weights, trained: Weights, weight: float, parameters: Collection[str]) -> dict[str, Tensor]:
    """Return θ₀ + w (θ − θ₀) for the parameters; everything else is as trained, and at w = 0 as in the original.

    Adapters are a product B·A, with B = 0 in the original: w·B with the trained A is w times what they add.

    Args:
        original: θ₀.
        trained: θ.
        weight: w, 0 to 1; the ends give θ₀ and θ exactly.
        parameters: names of the parameters. One whose shape differs, such as a new projection, is as trained.
    """
    if weight == 0.0:
        return dict(original)
    if weight == 1.0:
        return dict(trained)
    mixed = dict(trained)
    for name in parameters:
        if is_adapter_weight(name) and ".lora_B." not in name:
            continue
        before, after = original.get(name), trained[name]
        if before is not None and before.shape == after.shape and after.is_floating_point():
            mixed[name] = torch.lerp(before.float(), after.float(), weight).to(after.dtype)
    return mixed
