"""The weight λ of a regulariser: fixed, or such that the regulariser has a given share of the gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holdfast.distributed import mean_over_processes
from holdfast.objectives.contrastive import full_precision

_SMOOTHING = 0.9


class RegulariserWeight(nn.Module):
    r"""λ of a loss :math:`L + \lambda F`.

    By share, λ is such that F has the share s of the gradient, in the geometric mean over about the last ten steps:

    .. math::
        \lambda = \frac{s}{1 - s} e^{-\rho}, \qquad
        \rho \leftarrow 0.9\,\rho + 0.1 \log\frac{\|\nabla F\|}{\|\nabla L\|}

    where ρ starts as the logarithm of the first step. The gradients are those that :meth:`measure` is given.

    Args:
        fixed: λ; None: by share.
        share: s, in (0, 1).

    Attributes:
        running: (2,), ρ and the number of steps that it is from; a buffer, if λ goes by share.

    Raises:
        ValueError: λ is negative, or s lies outside (0, 1).
    """

    running: Tensor

    def __init__(self, fixed: float | None, share: float) -> None:
        super().__init__()
        if fixed is not None and not fixed >= 0:
            raise ValueError(f"regularisation must not be negative, got {fixed}")
        if not 0.0 < share < 1.0:
            raise ValueError(f"regularisation_share must lie between 0 and 1, got {share}")
        self.fixed, self.share = fixed, share
        if fixed is None:  # a fixed λ has no state, and neither have the checkpoints of earlier runs
            self.register_buffer("running", torch.zeros(2))

    @property
    def value(self) -> Tensor | float:
        """Return λ; by share, 0 before the first measurement."""
        if self.fixed is not None:
            return self.fixed
        ratio, steps = self.running
        return torch.where(steps > 0, self.share / (1.0 - self.share) * (-ratio).exp(), 0.0)

    @torch.no_grad()
    def measure(self, regulariser: Tensor, loss: Tensor) -> None:
        """Take in ‖∇F‖ and ‖∇L‖ of a step, scalars, F without λ; steps in which one of them is zero do not count."""
        if self.fixed is not None:
            return
        # Over all processes the norms are those of the vectors of the whole batch.
        squares = mean_over_processes(torch.stack([regulariser, loss]).square())
        ratio = ((squares[0].log() - squares[1].log()) / 2).to(self.running)
        rho, steps = self.running
        moved = torch.where(steps > 0, _SMOOTHING * rho + (1.0 - _SMOOTHING) * ratio, ratio)
        self.running.copy_(torch.where(ratio.isfinite(), torch.stack([moved, steps + 1]), self.running))


def gradient_norms(terms: Sequence[Tensor], vectors: Sequence[Tensor]) -> list[Tensor]:
    """Return the norm of each term's gradient with respect to all the vectors; the graph is kept."""
    norms = []
    for term in terms:
        with full_precision(term):
            gradients = torch.autograd.grad(
                term, list(vectors), retain_graph=True, allow_unused=True, materialize_grads=True
            )
        norms.append(torch.linalg.vector_norm(torch.cat(gradients)))
    return norms


def share_of(one: Tensor, other: Tensor) -> Tensor:
    """Return ``one / (one + other)`` of two norms, 0 if both are zero."""
    return one / (one + other).clamp_min(torch.finfo(one.dtype).tiny)
