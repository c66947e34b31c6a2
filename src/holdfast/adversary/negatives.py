"""Learned negatives: vectors that climb the loss the encoder descends (Hu et al. 2021; AdCSE, eq. 7)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.distributed import mean_over_processes


class LearnedNegatives(nn.Module):
    """M vectors of unit length that move against the encoder, by gradient ascent on the loss they are used in.

    Calling the module gives the vectors; backward passes through them add up their gradient; :meth:`ascend` takes one
    step of SGD with momentum, v ← μ·v + g − w·n and n ← n + α·v, with g averaged over processes. Not parameters: the
    optimiser descends, and has a learning rate of its own.

    The gradient is that of what was differentiated: a loss scaled for fp16 would scale the step. Several batches whose
    gradients are accumulated before a step count as the trainer weighs them.

    Args:
        count: M; 0 for none.
        dimension: d.
        learning_rate: α.
        momentum: μ in [0, 1).
        weight_decay: w. The vectors are normalised in use, so it only changes how far a step turns them.

    Attributes:
        vectors: (M, d), the negatives before normalisation, at first N(0, 1); a buffer.
        velocity: (M, d), v; a buffer.
        gradient_norm: ‖g‖₂ of the last step over all M·d coordinates, 0-dim; 0 before the first.
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
        """The negatives, (M, d), each of length 1; backward passes through them are counted."""
        leaf = self.vectors.detach().requires_grad_()
        leaf.register_hook(self._collect)  # type: ignore[no-untyped-call]
        return F.normalize(leaf, dim=-1)

    @torch.no_grad()
    def ascend(self) -> None:
        """One step up; nothing where no backward pass came since the last."""
        if self._gradient is None:
            return
        gradient = mean_over_processes(self._gradient)
        self._gradient = None
        self.gradient_norm = gradient.norm()
        self.velocity.mul_(self.momentum).add_(gradient).sub_(self.vectors, alpha=self.weight_decay)
        self.vectors.add_(self.velocity, alpha=self.learning_rate)

    def _collect(self, gradient: Tensor) -> None:
        self._gradient = gradient.detach().clone() if self._gradient is None else self._gradient + gradient
