"""Vectors that keep their use when they are shortened: the loss at several numbers of dimensions (Matryoshka).

Kusupati et al. Matryoshka Representation Learning. NeurIPS 2022; ``MatryoshkaLoss`` of sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import UserError

Cut = Callable[[Tensor], Tensor]
"""Shortens vectors (rows, d) to their first dimensions; the others become 0. At full size it returns its argument."""
Terms = Callable[[Cut], dict[str, Tensor]]
"""Computes the named terms of a loss from vectors that it shortens."""


def parse_dimensions(text: str) -> dict[int, float]:
    """Return the weight of each number of dimensions in a text such as ``768,256,64`` or ``256:0.5,64:0.25``.

    Raises:
        UserError: it is no such list, or names a size twice.
    """
    found: dict[int, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        size, _, weight = part.partition(":")
        try:
            number, share = int(size), float(weight or 1.0)
        except ValueError:
            raise UserError(f"--matryoshka takes numbers of dimensions, as in 768,256,64, not {part!r}") from None
        if number < 1 or not 0 < share <= 1000:
            raise UserError(f"--matryoshka {part}: a number of dimensions is at least 1, and its weight more than 0")
        if number in found:
            raise UserError(f"--matryoshka names {number} dimensions twice")
        found[number] = share
    if not found:
        raise UserError("--matryoshka takes numbers of dimensions, as in 768,256,64")
    return found


def fitted_dimensions(weights: Mapping[int, float], dimension: int) -> dict[int, float]:
    """Return the weights, largest size first, with that of the whole vector, d, and a sum of 1.

    Raises:
        UserError: a size is more than d.
    """
    for size in weights:
        if size > dimension:
            raise UserError(f"--matryoshka {size}: the model's vectors have {dimension} dimensions")
    complete = {dimension: 1.0, **weights}
    total = sum(complete.values())
    return {size: complete[size] / total for size in sorted(complete, reverse=True)}


def whole(vectors: Tensor) -> Tensor:
    """Return the vectors: the `Cut` of whole vectors."""
    return vectors


def shortened(vectors: Tensor, size: int) -> Tensor:
    """Return vectors (rows, d) of which only the first ``size`` dimensions are not 0, scaled to their former length.

    Their cosines are those of the shortened vectors; a head of width d takes them.
    """
    if size >= vectors.shape[-1]:
        return vectors
    kept = F.pad(vectors[..., :size], (0, vectors.shape[-1] - size))
    length = torch.linalg.vector_norm(kept, dim=-1, keepdim=True).clamp_min(torch.finfo(kept.dtype).tiny)
    scaled: Tensor = kept * (torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).detach() / length)
    return scaled


def joined_terms(terms: Terms, weights: Mapping[int, float]) -> dict[str, Tensor]:
    """Return the weighted sums of the terms at each size, (Σ w_k·term_k) by name; the whole size comes first."""
    total: dict[str, Tensor] = {}
    for size, weight in weights.items():
        for name, term in terms(partial(shortened, size=size)).items():
            total[name] = total[name] + weight * term if name in total else weight * term
    return total
