"""Each method made exact: fp64, and draws that give every sentence the same noise wherever it is computed."""

from __future__ import annotations

from typing import Any

import torch

from holdfast.objectives import METHODS, Objective, RobustEmbed

OPTIONS: dict[str, dict[str, Any]] = {}


def exact_objective(method: str, model: Any, path: str) -> Objective:
    """The method's objective over a small model whose dropout is 0; ``path``: the model's folder, a masked LM."""
    objective = METHODS[method](model, **OPTIONS.get(method, {})).double()
    if isinstance(objective, RobustEmbed):
        noise = torch.randn(64, 16, dtype=torch.float64) * 1e-3
        objective.initial_noise = lambda x: noise[: x.shape[1]].expand_as(x)  # type: ignore[method-assign]
    return objective
