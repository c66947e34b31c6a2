"""Virtual adversarial perturbation: the one that changes the output most, without labels (V-advCSE, eq. 9, Alg. 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.adversary.ascent import gaussian, perturbation_gradient
from holdfast.adversary.balls import per_coordinate, project, unit_direction

BallNorm = Literal["2", "inf"]


@dataclass(frozen=True)
class VirtualAdversary:
    """K projected ascent steps r ← Π(r + η·g/‖g‖₂), or η·sign g in the L∞ ball, from noise (V-advCSE, appendix A).

    The ball uses the *ordinary* norm of a sentence's r, over the real tokens according to the mask.

    Attributes:
        steps: K; with 0 steps r is the start.
        radius: ε.
        step_size: η; None: ε.
        norm: "2" or "inf".
        init_std: σ of r⁰ ~ N(0, σ²I); None: chosen so that ‖r⁰‖ is about ε/10 for every sentence.
        as_released: as in the authors' code, r is scaled to length ε per token and a step is η·g.
    """

    steps: int = 1
    radius: float = 1.0
    step_size: float | None = None
    norm: BallNorm = "2"
    init_std: float | None = None
    as_released: bool = False

    def noise(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw r⁰ for inputs x (B, L, d) with a mask (B, L) of real tokens, in fp32; not projected yet."""
        if self.init_std is not None:
            return gaussian(x, self.init_std, generator)
        std = per_coordinate(self.radius, mask, x.shape[-1], self.norm) / 10
        if self.norm == "inf":  # the largest of n normal numbers is about √(2 ln 2n)
            std = std / (2 * (2 * mask.sum(dim=1) * x.shape[-1]).log()).sqrt()
        return gaussian(x, 1.0, generator) * std[:, None, None]

    def climb(self, start: Tensor, mask: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Climb ``loss``, a function of r, from ``start`` (B, L, d); return r, and the loss at each gradient."""
        r, values = self._confined(start, mask), []
        for _ in range(self.steps):
            slope, value = perturbation_gradient(loss, r)
            values.append(value)
            r = self._confined(r + self._step(slope, mask), mask)
        return r, values

    def _step(self, slope: Tensor, mask: Tensor) -> Tensor:
        size = self.radius if self.step_size is None else self.step_size
        if self.as_released:
            return slope * size
        direction = slope.sign() if self.norm == "inf" else unit_direction(slope, mask, self.norm)
        return direction * per_coordinate(size, mask, slope.shape[-1], self.norm)[:, None, None]

    def _confined(self, r: Tensor, mask: Tensor) -> Tensor:
        if self.as_released:
            length: Tensor = torch.linalg.vector_norm(r, dim=-1, keepdim=True)
            return r * (self.radius / (length + 1e-6))
        return project(r, mask, self.norm, per_coordinate(self.radius, mask, r.shape[-1], self.norm))
