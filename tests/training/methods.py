"""Each method on a model of two layers and sixteen features, and made exact where two runs are to be compared."""

from __future__ import annotations

from typing import Any

import torch

from holdfast.adversary.weakening import Weakening
from holdfast.objectives import L2PCSR, METHODS, Anchored, Combined, ConSERT, DiffCSE, Objective, RobustEmbed, VAdvCSE
from small_options import ADCL, COMBINED

# Defaults that do not fit two layers and eight sentences; and a queue that is filled and wraps round.
OPTIONS: dict[str, dict[str, Any]] = {
    "anchored": {"adversarial": 0.5},
    "adcl": ADCL,
    "combined": COMBINED,
    "ct": {"negatives": 5},
    "l2p-csr": {"layers": 2, "threshold": 0.4},
}


def exact_objective(method: str, model: Any) -> Objective:
    """The method's objective in fp64, with draws that give every sentence the same noise wherever it is computed."""
    objective = METHODS[method](model, **OPTIONS.get(method, {})).double()
    replaced: Any = objective
    normal, uniform = torch.randn(64, 16, dtype=torch.float64), torch.rand(2, 64, dtype=torch.float64)
    if isinstance(objective, (Anchored, RobustEmbed, Combined)):
        replaced.initial_noise = lambda x: (normal * 1e-3)[: x.shape[1]].expand_as(x)
    if isinstance(objective, VAdvCSE):
        replaced.initial_noise = lambda x, mask: (normal * 0.1)[: x.shape[1]].expand_as(x)
    if isinstance(objective, Combined):
        replaced.initial_perturbation = lambda h, mask: (normal * 0.1)[:1].expand_as(h)
    if isinstance(objective, DiffCSE):
        replaced.draw = lambda number, shape, device: uniform[number % 2, : shape[1]].expand(shape)
        assert objective.generator is not None
        objective.generator.model.double()
    if isinstance(objective, ConSERT):
        replaced.draw = lambda view, shape, device: uniform[view, : shape[1]].expand(shape)
    if isinstance(objective, (L2PCSR, Combined)):

        def probabilities(x: torch.Tensor) -> Weakening:
            # L2P-CSR's rows are of two views, with masks of their own; Combined's are of one, beside momentum keys.
            views = (
                torch.arange(len(x)) // (len(x) // 2) if isinstance(objective, L2PCSR) else torch.zeros(len(x)).long()
            )
            return Weakening(*(uniform[views, :size].expand(2, -1, -1).clone() for size in (x.shape[1], x.shape[2])))

        replaced.initial_probabilities = probabilities
    return objective
