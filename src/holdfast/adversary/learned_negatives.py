"""Learned negatives: vectors that maximise the loss that the encoder minimises (Hu et al. 2021; AdCSE, eq. 7)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.distributed import mean_over_processes

NegativesStep = Literal["raw", "normalised"]
_TINY = torch.finfo(torch.float32).tiny


class LearnedNegatives(nn.Module):
    """M negatives of unit length, trained by gradient ascent on the loss they are used in.

    Calling the module returns the vectors; backward passes through them accumulate their gradient; :meth:`ascend` makes
    one step of SGD with momentum, v ← μ·v + g − w·n and n ← n + α·v, with g averaged over processes. They are buffers,
    not parameters, since the optimiser descends and has another learning rate.

    With ``step="normalised"`` g/‖g‖ of each negative takes the place of g, and α‖n‖ the place of α. A negative far from
    all sentences has a share of the loss, and hence a gradient, of about e^(-1/τ): the raw step leaves it where it is.
    The normalised one turns it by about α radians, or α/(1 − μ) with momentum, whatever the loss is; the length of n
    stays what it was.

    A loss scaled for fp16 would also scale the raw step. With gradient accumulation the batches are weighted as by the
    trainer.

    Args:
        count: M; may be 0.
        dimension: d.
        learning_rate: α.
        momentum: μ in [0, 1).
        weight_decay: w. Since the vectors are normalised in use, it only changes the angle of a step.
        step: "raw" or "normalised".

    Attributes:
        vectors: (M, d), the negatives before normalisation, initialised with N(0, 1); a buffer.
        velocity: (M, d), v; a buffer.
        gradient_norm: ‖g‖₂ of the last step over all M·d coordinates, a scalar; 0 before the first step.
        turned: mean angle by which the last step turned the negatives, in degrees, a scalar; 0 before the first step.
    """

    vectors: Tensor
    velocity: Tensor

    def __init__(
        self,
        count: int,
        dimension: int,
        *,
        learning_rate: float,
        momentum: float,
        weight_decay: float = 0.0,
        step: NegativesStep = "raw",
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
        self.step = step
        self.register_buffer("vectors", torch.randn(count, dimension))
        self.register_buffer("velocity", torch.zeros(count, dimension))
        self.gradient_norm, self.turned = torch.zeros(()), torch.zeros(())
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
        before = F.normalize(self.vectors, dim=-1)
        if self.step == "normalised":
            lengths = self.vectors.norm(dim=-1, keepdim=True)
            reached = before + self.learning_rate * self._velocity(_directions(gradient), before)
            self.vectors.copy_(F.normalize(reached, dim=-1) * lengths)
        else:
            self.vectors.add_(self._velocity(gradient, self.vectors), alpha=self.learning_rate)
        self.turned = _mean_angle(before, F.normalize(self.vectors, dim=-1))

    def _velocity(self, slope: Tensor, place: Tensor) -> Tensor:
        """Update the velocity by a slope at a place, both (M, d), and return it."""
        return self.velocity.mul_(self.momentum).add_(slope).sub_(place, alpha=self.weight_decay)

    def _collect(self, gradient: Tensor) -> None:
        self._gradient = gradient.detach().clone() if self._gradient is None else self._gradient + gradient


def _directions(gradient: Tensor) -> Tensor:
    """Return g/‖g‖ of each row, (M, d); zero where it is zero."""
    # Scaled first: the squares of a negative's gradient, about 1e-9 in a small loss, could be zero in fp32.
    return F.normalize(gradient / gradient.abs().amax(dim=-1, keepdim=True).clamp_min(_TINY), dim=-1)


def _mean_angle(before: Tensor, after: Tensor) -> Tensor:
    """Return the mean angle between unit vectors (M, d) in degrees; 0 without vectors."""
    if not len(before):
        return before.new_zeros(())
    # From the length of the chord: the cosine of an angle below 0.02 degrees is 1 in fp32.
    chord = (after - before).norm(dim=-1)
    return torch.rad2deg(2 * (chord / 2).clamp_max(1.0).asin()).mean()
