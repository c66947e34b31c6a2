"""The losses of single texts: their means over a batch are the losses of the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.objectives.contrastive import info_nce


def info_nce_of_texts(
    queries: Tensor,
    positives: Sequence[Tensor],
    *,
    equal: Tensor | None = None,
    extra_mask: Tensor | None = None,
    **settings: Any,
) -> Tensor:
    """Return the InfoNCE of each query of a batch, (B,); the arguments are those of `info_nce`, without ``offset``."""

    def row(matrix: Tensor | None, i: int) -> Tensor | None:
        return matrix if matrix is None or matrix.ndim == 1 else matrix[i : i + 1]

    losses = [
        info_nce(
            queries[i : i + 1],
            positives,
            offset=i,
            equal=row(equal, i),
            extra_mask=row(extra_mask, i),
            **settings,
        )
        for i in range(len(queries))
    ]
    return torch.stack(losses)


def nt_xent_of_texts(first: Tensor, second: Tensor, *, temperature: float, equal: Tensor | None = None) -> Tensor:
    """Return ConSERT's loss of each text, (B,): the mean of NT-Xent of its two views, both (B, d) (eq. 1)."""
    rows, vectors = len(first), torch.cat([first, second])
    # The vector itself is left out, as those of equal texts are; info_nce keeps the partner.
    left_out = torch.eye(2 * rows, dtype=torch.bool, device=first.device)
    if equal is not None:
        left_out = left_out | equal.repeat(2, 2)
    losses = [
        info_nce(
            vectors[i : i + 1],
            [vectors],
            temperature=temperature,
            offset=(i + rows) % (2 * rows),
            equal=left_out[i : i + 1],
        )
        for i in range(2 * rows)
    ]
    return torch.stack(losses).view(2, rows).mean(dim=0)
