"""Weakening masks over tokens and features, learned by climbing a loss (L2P-CSR, eq. 1-8 and Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

_TINY = torch.finfo(torch.float32).tiny


class Weakening(NamedTuple):
    """One number per token and per feature for k layers: keep-probabilities, their masks, or gradients.

    Attributes:
        tokens: (k, rows, L); None: tokens are never weakened (a constant mask of ones).
        features: (k, rows, d), or (k, 1, d) if all rows share one mask; None: features are never weakened.
    """

    tokens: Tensor | None
    features: Tensor | None

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Return the two terms of each layer's M (eq. 2), (rows, L, 1) and (rows, 1, d), as for ``Encoder.perturbed``.

        Their sum, which is M except at padding, is never materialised for the whole batch.
        """
        some = next(part for part in self if part is not None)
        one = some.new_full((1, 1, 1), 0.5)
        # Halve the small terms: their sum is as large as the activations.
        tokens = None if self.tokens is None else self.tokens.unsqueeze(-1) / 2
        features = None if self.features is None else self.features.unsqueeze(-2) / 2
        return [
            (one if tokens is None else tokens[layer], one if features is None else features[layer])
            for layer in range(len(some))
        ]

    def fused(self, real: Tensor) -> list[Tensor]:
        """Return M of each layer, the mean of its two masks (eq. 2), in {0, ½, 1}, and 1 at padding.

        The shape is (rows, L, d), or (rows, L, 1) if features are never weakened. ``real``, (rows, L): true at tokens.
        """
        return [torch.where(real.unsqueeze(-1), token + feature, 1.0) for token, feature in self.pairs()]

    def whole_at_padding(self, real: Tensor) -> Weakening:
        """Return a copy whose token part is 1 at padding, where ``real`` (rows, L) is false."""
        return self if self.tokens is None else self._replace(tokens=torch.where(real, self.tokens, 1.0))


@dataclass(frozen=True)
class WeakeningAscent:
    """Gradient ascent on keep-probabilities P, for a loss of their masks (L2P-CSR, eq. 1 and 5-8).

    A mask is 1 where ``P ≥ φ`` and 0 elsewhere. The gradient g of the loss with respect to the mask is used as that of
    the probabilities (straight-through): ``P ← clip(P + β·g/‖g‖₂, 0, 1)``. The norm is over the tokens of one row and
    one layer for a token mask, and over the d features for a feature mask; P stays where g is zero.

    Attributes:
        steps: t.
        size: β.
        threshold: φ.
        continuous: use the probabilities themselves as masks.
        as_released: as in the authors' code, the gradient of each token is normalised alone, so that P moves by ±β, and
            P becomes 1 where the gradient is zero.
    """

    steps: int
    size: float
    threshold: float
    continuous: bool = False
    as_released: bool = False

    def climb(self, start: Weakening, loss: Callable[[Weakening], Tensor]) -> tuple[Weakening, list[Tensor]]:
        """Climb ``loss``, a function of masks, from the probabilities ``start``.

        Returns:
            The probabilities, detached, and the loss at each gradient.
        """
        keep, losses = start, []
        for _ in range(self.steps):
            slope, value = weakening_gradient(loss, self.masks(keep))
            losses.append(value)
            keep = Weakening(self._moved_tokens(keep.tokens, slope.tokens), self._moved(keep.features, slope.features))
        return keep, losses

    def masks(self, keep: Weakening) -> Weakening:
        """Return the masks of keep-probabilities (eq. 1)."""
        if self.continuous:
            return keep
        return Weakening(*(None if part is None else (part >= self.threshold).to(part.dtype) for part in keep))

    def _moved_tokens(self, keep: Tensor | None, slope: Tensor | None) -> Tensor | None:
        if keep is None or slope is None or not self.as_released:
            return self._moved(keep, slope)
        moved = self._moved(keep.unsqueeze(-1), slope.unsqueeze(-1))
        return None if moved is None else moved.squeeze(-1)

    def _moved(self, keep: Tensor | None, slope: Tensor | None) -> Tensor | None:
        if keep is None or slope is None:
            return None
        moved = (keep + self.size * _unit(slope)).clamp(0.0, 1.0)
        if self.as_released:
            moved = torch.where((slope == 0).all(dim=-1, keepdim=True), 1.0, moved)
        return moved


def uniform_start(
    x: Tensor, layers: int, *, tokens: bool = True, features: bool = True, shared: bool = False
) -> Weakening:
    """Draw P⁰ ~ U(0, 1) of k ``layers`` (L2P-CSR, eq. 4), in fp32, for embeddings x (rows, L, d).

    ``tokens`` and ``features`` choose the masks to make; ``shared``: one feature mask for all rows.
    """
    rows, length, width = x.shape
    kind: dict[str, Any] = {"device": x.device, "dtype": torch.promote_types(x.dtype, torch.float32)}
    return Weakening(
        torch.rand(layers, rows, length, **kind) if tokens else None,
        torch.rand(layers, 1 if shared else rows, width, **kind) if features else None,
    )


def weakening_gradient(loss: Callable[[Weakening], Tensor], masks: Weakening) -> tuple[Weakening, Tensor]:
    """Return the gradient of ``loss`` with respect to each mask and the loss's value, all detached (eq. 7-8).

    Only the gradients of the masks are computed: no parameter's ``.grad`` changes.
    """
    leaves = Weakening(*(None if part is None else part.detach().requires_grad_() for part in masks))
    with torch.enable_grad():
        value = loss(leaves)
        slopes = iter(torch.autograd.grad(value, [leaf for leaf in leaves if leaf is not None]))
    return Weakening(*(None if leaf is None else next(slopes) for leaf in leaves)), value.detach()


def _unit(slope: Tensor) -> Tensor:
    """Return ``g / ‖g‖₂`` over the last dimension; 0 where g is 0. Scales first: squares of 1e-20 are zero in fp32."""
    scaled = slope / slope.abs().amax(dim=-1, keepdim=True).clamp_min(_TINY)
    length: Tensor = scaled.norm(dim=-1, keepdim=True)
    return scaled / length.clamp_min(_TINY)
