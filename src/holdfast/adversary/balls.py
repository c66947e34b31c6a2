"""Norm balls around a sentence's token embeddings: norms, directions and exact projections.

A perturbation δ has shape (B, L, d). Norms are taken *per sentence over its real tokens*: the n = length·d coordinates
where ``mask``, (B, L), is 1. They are power means, ``‖δ‖_P = (Σ|δ|^P / n)^(1/P)``, so a radius is in units of one
coordinate for every norm and sentence length: the vector with every coordinate ±ε lies on the surface of all three
balls. For P = ∞ this is the ordinary norm, the one of RobustEmbed's main experiments; for P = 1 and 2 it is the
rescaling with which its Table 5 compares balls of similar effect (ordinary radius ε·n and ε·√n).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Norm = Literal["1", "2", "inf"]
NORMS: tuple[Norm, ...] = ("1", "2", "inf")

_TINY = torch.finfo(torch.float32).tiny


def sentence_norm(delta: Tensor, mask: Tensor, norm: Norm) -> Tensor:
    """Return the norm of each sentence's perturbation, (B,); see the module's docstring for the scaling."""
    magnitude = (delta * mask.unsqueeze(-1)).abs().flatten(1)
    if norm == "inf":
        return magnitude.amax(dim=1)
    coordinates = mask.sum(dim=1) * delta.shape[-1]
    if norm == "2":
        return (magnitude.square().sum(dim=1) / coordinates).sqrt()
    return magnitude.sum(dim=1) / coordinates


def unit_direction(gradient: Tensor, mask: Tensor, norm: Norm) -> Tensor:
    """Return ``g / ‖g‖_P`` per sentence, (B, L, d); zero where the gradient is zero or the token is padding."""
    gradient = gradient * mask.unsqueeze(-1)
    # Scale first: squares of 1e-20 are zero in fp32.
    gradient = gradient / gradient.abs().amax(dim=(1, 2), keepdim=True).clamp_min(_TINY)
    return gradient / sentence_norm(gradient, mask, norm).clamp_min(_TINY)[:, None, None]


def per_coordinate(size: float, mask: Tensor, dimension: int, norm: Norm) -> Tensor:
    """Convert a size in the ordinary norm to units of one coordinate, (B,): size/n, size/√n, size for P = 1, 2, ∞."""
    coordinates = mask.sum(dim=1) * dimension
    if norm == "inf":
        return torch.full_like(coordinates, size)
    return size / (coordinates if norm == "1" else coordinates.sqrt())


def project(delta: Tensor, mask: Tensor, norm: Norm, radius: float | Tensor) -> Tensor:
    """Project δ onto the ball ``‖δ‖_P ≤ radius`` (nearest point in Euclidean distance), (B, L, d); padding becomes 0.

    It is a ball, not a sphere: points inside do not move. The radius may be one number per sentence, (B,).
    """
    delta = delta * mask.unsqueeze(-1)
    if norm == "inf":
        if isinstance(radius, Tensor):
            return delta.clamp(-radius[:, None, None], radius[:, None, None])
        return delta.clamp(-radius, radius)
    if norm == "2":
        length = sentence_norm(delta, mask, "2").clamp_min(_TINY)
        return delta * (radius / length).clamp_max(1.0)[:, None, None]
    coordinates = mask.sum(dim=1) * delta.shape[-1]
    return _project_l1(delta.flatten(1), radius * coordinates).view_as(delta)


def _project_l1(rows: Tensor, radii: Tensor) -> Tensor:
    """Project each row (B, n) onto its L1 ball of radius ``radii`` (B,) by soft-thresholding (Duchi et al. 2008)."""
    magnitude = rows.abs()
    descending = magnitude.sort(dim=1, descending=True).values
    excess = descending.cumsum(dim=1) - radii[:, None]
    ranks = torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=rows.dtype)
    kept = (descending * ranks > excess).sum(dim=1, keepdim=True).clamp_min(1)
    threshold = (excess.gather(1, kept - 1) / kept).clamp_min(0.0)
    return rows.sign() * (magnitude - threshold).clamp_min(0.0)
