"""Gradient ascent on a perturbation of the token embeddings: PGD, FGSM and RobustEmbed's mix of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.adversary.balls import Norm, project, unit_direction

Trajectory = Literal["mixed", "separate"]
Gradient = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class MixedAscent:
    """RobustEmbed's perturbation generator (RobustEmbed, eq. 3-5 and Algorithm 1).

    At each of max(K, T) steps the gradient g at δ gives a PGD point ``Π(δ + α·g/‖g‖_P)`` (the first K steps) and an
    FGSM point ``Π(δ + β·sign g)`` (the first T steps), and δ moves to ``λ·pgd + (1−λ)·fgsm``; if only one part is
    still active, δ moves to its point. Both points lie in the convex ball, hence so does δ.

    The paper does not say where the next gradient is taken ("separately"; one mix at the end). The alternative reading
    is ``trajectory="separate"``: two chains with a gradient each, mixed once at the end; it costs one more gradient per
    step.

    Attributes:
        pgd_steps: K, steps of the PGD part.
        fgsm_steps: T, steps of the FGSM part.
        pgd_size: α, step size of the PGD part in the norm P, in units of one embedding coordinate.
        fgsm_size: β, step size of the FGSM part in every coordinate.
        mix: λ in [0, 1], weight of the PGD part; a part with weight 0 is not computed.
        radius: ε, radius of the ball, in units of one embedding coordinate.
        norm: P, "1", "2" or "inf" (see :mod:`holdfast.adversary.balls`).
        trajectory: "mixed" or "separate".
    """

    pgd_steps: int
    fgsm_steps: int
    pgd_size: float
    fgsm_size: float
    mix: float
    radius: float
    norm: Norm
    trajectory: Trajectory = "mixed"

    @classmethod
    def reaching(
        cls,
        pgd_steps: int,
        fgsm_steps: int,
        pgd_size: float,
        fgsm_size: float,
        mix: float,
        radius: float | None,
        norm: Norm,
        trajectory: Trajectory,
    ) -> MixedAscent:
        """Return a checked attack; without a radius, the ball is what the FGSM part (else the PGD part) can reach.

        Raises:
            ValueError: λ lies outside [0, 1], or no part with a positive weight makes a step.
        """
        if not 0.0 <= mix <= 1.0:
            raise ValueError(f"mix must lie in [0, 1], got {mix:g}")
        pgd_reach, fgsm_reach = pgd_steps * pgd_size, fgsm_steps * fgsm_size
        if radius != 0.0 and not (pgd_reach * mix or fgsm_reach * (1.0 - mix)):
            raise ValueError(
                "nothing would be attacked: PGD (where mix > 0) or FGSM (where mix < 1) must make steps of some size; "
                "radius=0 leaves the attack out on purpose"
            )
        radius = (fgsm_reach or pgd_reach) if radius is None else radius
        return cls(pgd_steps, fgsm_steps, pgd_size, fgsm_size, mix, radius, norm, trajectory)

    def run(self, start: Tensor, mask: Tensor, gradient: Gradient, *, projected: list[Tensor] | None = None) -> Tensor:
        """Climb from ``start`` (B, L, d) with ``gradient(δ)``, the gradient of the loss at δ; return δ (B, L, d).

        Each step's share of coordinates that the projection onto the ball moved is appended to ``projected``, one
        entry for each part; where all are 0, ε does not bind, and the ball's shape has no effect.
        """
        start = project(start, mask, self.norm, self.radius)
        if self.trajectory == "separate":
            return self._mixed(*self._chains(start, mask, gradient, projected))
        delta = start
        for step in range(max(self._steps("pgd"), self._steps("fgsm"))):
            slope = gradient(delta)
            pgd = self._pgd(delta, slope, mask, projected) if step < self._steps("pgd") else None
            fgsm = self._fgsm(delta, slope, mask, projected) if step < self._steps("fgsm") else None
            delta = self._mixed(pgd, fgsm)
        return delta

    def climb(
        self,
        start: Tensor,
        mask: Tensor,
        loss: Callable[[Tensor], Tensor],
        *,
        projected: list[Tensor] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Call :meth:`run` on a loss of δ; return the detached δ (B, L, d), and the loss at each gradient."""
        losses: list[Tensor] = []

        def gradient(delta: Tensor) -> Tensor:
            slope, value = perturbation_gradient(loss, delta)
            losses.append(value)
            return slope

        return self.run(start, mask, gradient, projected=projected).detach(), losses

    def _chains(
        self, start: Tensor, mask: Tensor, gradient: Gradient, projected: list[Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        pgd, fgsm = start, start
        for _ in range(self._steps("pgd")):
            pgd = self._pgd(pgd, gradient(pgd), mask, projected)
        for _ in range(self._steps("fgsm")):
            fgsm = self._fgsm(fgsm, gradient(fgsm), mask, projected)
        return pgd, fgsm

    def _steps(self, part: Literal["pgd", "fgsm"]) -> int:
        share = self.mix if part == "pgd" else 1.0 - self.mix
        if share == 0.0:
            return 0
        return self.pgd_steps if part == "pgd" else self.fgsm_steps

    def _pgd(self, delta: Tensor, slope: Tensor, mask: Tensor, projected: list[Tensor] | None) -> Tensor:
        return self._inside(delta + self.pgd_size * unit_direction(slope, mask, self.norm), mask, projected)

    def _fgsm(self, delta: Tensor, slope: Tensor, mask: Tensor, projected: list[Tensor] | None) -> Tensor:
        return self._inside(delta + self.fgsm_size * slope.sign(), mask, projected)

    def _inside(self, point: Tensor, mask: Tensor, projected: list[Tensor] | None) -> Tensor:
        """Return the projection of a point onto the ball; append the share of real coordinates that it moved."""
        nearest = project(point, mask, self.norm, self.radius)
        if projected is not None:
            moved = (nearest != point) & (mask.unsqueeze(-1) > 0)
            projected.append(moved.sum() / (mask.sum() * point.shape[-1]))
        return nearest

    def _mixed(self, pgd: Tensor | None, fgsm: Tensor | None) -> Tensor:
        if pgd is None or fgsm is None:
            alone = fgsm if pgd is None else pgd
            assert alone is not None  # run() only steps while at least one part is active
            return alone
        return self.mix * pgd + (1.0 - self.mix) * fgsm


def gaussian(x: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Draw N(0, σ²I) of the shape of x, in fp32 or better: ascent steps can be below the spacing of bf16 numbers.

    None draws from the global generator of x's device; another one may be on another device, such as the CPU.
    """
    kind = torch.promote_types(x.dtype, torch.float32)
    device = x.device if generator is None else generator.device
    return torch.randn(x.shape, device=device, dtype=kind, generator=generator).to(x.device) * std


def perturbation_gradient(loss: Callable[[Tensor], Tensor], delta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of ``loss`` at ``delta`` and the loss's value, both detached.

    Only δ's gradient is computed: no parameter's ``.grad`` changes.
    """
    leaf = delta.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf)
        (slope,) = torch.autograd.grad(value, leaf)
    return slope.to(torch.promote_types(slope.dtype, torch.float32)), value.detach()
