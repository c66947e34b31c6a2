"""InfoNCE, the contrastive loss that every method here builds on, as a pure function of vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce(queries: Tensor, positives: Sequence[Tensor], *, temperature: float, offset: int = 0) -> Tensor:
    """InfoNCE with cosine similarity and one or more positives per query (RobustEmbed, eq. 2; SimCSE, eq. 4).

    ``mean over i of −log( Σ_v exp(sim(q_i, k_i^v)/τ) / Σ_v Σ_j exp(sim(q_i, k_j^v)/τ) )``. The sum over the positive
    views v is inside the logarithm, above and below; the negatives are the other sentences' keys of the same views.
    With one view it is the loss of SimCSE.

    Args:
        queries: (B, d), this process's queries.
        positives: one or more tensors (M, d), a key of every sentence in each view; M ≥ B when the keys of several
            processes are joined.
        temperature: τ.
        offset: row of ``positives`` that belongs to ``queries[0]``.

    Returns:
        The loss, a scalar in the queries' precision.
    """
    rows = torch.arange(len(queries), device=queries.device)
    with full_precision(queries):
        similarities = [cosine_matrix(queries, keys) for keys in positives]
        logits = torch.stack(similarities, dim=1) / temperature  # (B, views, M)
        matching = logits[rows, :, rows + offset]  # (B, views)
        return (logits.flatten(1).logsumexp(dim=1) - matching.logsumexp(dim=1)).mean()


def cosine_matrix(queries: Tensor, keys: Tensor) -> Tensor:
    """Cosines of all pairs, (B, M), of vectors (B, d) and (M, d)."""
    return F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T


@contextlib.contextmanager
def full_precision(tensor: Tensor) -> Iterator[None]:
    """No autocast on the tensor's device: heads and losses are computed in fp32."""
    with torch.autocast(tensor.device.type, enabled=False):
        yield
