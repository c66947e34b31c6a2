"""Learned negatives: vectors that maximise the loss that the encoder minimises (Hu et al. 2021; AdCSE, eq. 7)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.distributed import mean_over_processes


class LearnedNegatives(nn.Module):
    """M negatives of unit length, trained by gradient ascent on the loss they are used in.

    Calling the module returns the vectors; backward passes through them accumulate their gradient; :meth:`ascend` makes
    one step of SGD with momentum, v ← μ·v + g − w·n and n ← n + α·v, with g averaged over processes. They are buffers,
    not parameters, since the optimiser descends and has another learning rate.

    A loss scaled for fp16 would also scale the step. With gradient accumulation the batches are weighted as by the
    trainer.

    Args:
        count: M; may be 0.
        dimension: d.
        learning_rate: α.
        momentum: μ in [0, 1).
        weight_decay: w. Since the vectors are normalised in use, it only changes the angle of a step.

    Attributes:
        vectors: (M, d), the negatives before normalisation, initialised with N(0, 1); a buffer.
        velocity: (M, d), v; a buffer.
        gradient_norm: ‖g‖₂ of the last step over all M·d coordinates, a scalar; 0 before the first step.
    """

    vectors: Tensor
    velocity: Tensor

    def __init__(
        self, count: int, dimension: int, *, learning_rate: float, momentum: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__()
        if count < 0:
            raise ValueError(f"the number of negatives must be 0 or more, got {count}")
        if not learning_rate > 0.0:
            raise ValueError(f"the learning rate of the negatives must be positive, got {learning_rate}")
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"the momentum of the negatives must lie in [0, 1), got {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"the weight decay of the negatives must not be negative, got {weight_decay}")
        self.learning_rate, self.momentum, self.weight_decay = learning_rate, momentum, weight_decay
        self.register_buffer("vectors", torch.randn(count, dimension))
        self.register_buffer("velocity", torch.zeros(count, dimension))
        self.gradient_norm = torch.zeros(())
        self._gradient: Tensor | None = None

    def forward(self) -> Tensor:
        """Return the negatives, (M, d), each of length 1; backward passes through them accumulate a gradient."""
        leaf = self.vectors.detach().requires_grad_()
        leaf.register_hook(self._collect)  # type: ignore[no-untyped-call]
        return F.normalize(leaf, dim=-1)

    @torch.no_grad()
    def ascend(self) -> None:
        """Make one ascent step; do nothing if there was no backward pass since the last one."""
        if self._gradient is None:
            return
        gradient = mean_over_processes(self._gradient)
        self._gradient = None
        self.gradient_norm = gradient.norm()
        self.velocity.mul_(self.momentum).add_(gradient).sub_(self.vectors, alpha=self.weight_decay)
        self.vectors.add_(self.velocity, alpha=self.learning_rate)

    def _collect(self, gradient: Tensor) -> None:
        self._gradient = gradient.detach().clone() if self._gradient is None else self._gradient + gradient
