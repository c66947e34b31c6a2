"""InfoNCE, the contrastive loss of most methods, as a pure function of vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Similarity = Literal["cosine", "dot"]


def info_nce(
    queries: Tensor,
    positives: Sequence[Tensor],
    *,
    temperature: float,
    offset: int = 0,
    equal: Tensor | None = None,
    extra_negatives: Tensor | None = None,
    extra_mask: Tensor | None = None,
    in_batch_negatives: bool = True,
    similarity: Similarity = "cosine",
) -> Tensor:
    """Return InfoNCE with one or more positives per query (RobustEmbed, eq. 2; SimCSE, 4; AdCSE, 5; ADCL, 1).

    ``mean over i of −log( Σ_v exp(sim(q_i, k_i^v)/τ) / Σ_v Σ_j exp(sim(q_i, k_j^v)/τ) )``. The sum over the positive
    views v is inside the logarithm, in numerator and denominator; the negatives are the other sentences' keys of the
    same views. With one view it is the loss of SimCSE. Extra negatives n add ``Σ_n exp(sim(q_i, n)/τ)`` to the
    denominator.

    Args:
        queries: (B, d), this process's queries.
        positives: one tensor (N, d) per view, with a key of every sentence; N ≥ B when the keys of several
            processes are joined.
        temperature: τ.
        offset: row of ``positives`` that belongs to ``queries[0]``.
        equal: (B, N), true for the keys of texts equal to the query's own (`Objective.equal_texts`): they are not
            negatives, in any view. The query's own keys remain its positives.
        extra_negatives: (M, d), negatives of every query, such as a queue of old keys or learned vectors.
        extra_mask: (M,), or (B, M) per query, true for the extra negatives to use.
        in_batch_negatives: use the other sentences' keys as negatives; without them j is only i.
        similarity: "cosine", or "dot" for the inner product.

    Returns:
        The loss, a scalar in the queries' precision.
    """
    rows = torch.arange(len(queries), device=queries.device)
    with full_precision(queries):
        compare = cosine_matrix if similarity == "cosine" else _inner_products
        logits = torch.stack([compare(queries, keys) for keys in positives], dim=1) / temperature  # (B, views, N)
        matching = logits[rows, :, rows + offset]  # (B, views)
        below = without_equal(logits, equal, rows + offset).flatten(1) if in_batch_negatives else matching
        if extra_negatives is not None:
            extra = compare(queries, extra_negatives) / temperature  # (B, M)
            if extra_mask is not None:
                extra = extra.masked_fill(~extra_mask, float("-inf"))
            below = torch.cat([below, extra], dim=1)
        return (below.logsumexp(dim=1) - matching.logsumexp(dim=1)).mean()


@torch.no_grad()
def share_found(queries: Tensor, keys: Tensor, offset: int = 0, equal: Tensor | None = None) -> Tensor:
    """Return the share of queries (B, d) whose own key is the nearest by cosine of all keys (N, d), a scalar.

    ``offset`` and ``equal`` are those of `info_nce`: keys of equal texts are left out.
    """
    own = torch.arange(len(queries), device=queries.device) + offset
    with full_precision(queries):
        nearest = without_equal(cosine_matrix(queries, keys), equal, own).argmax(dim=1)
    return (nearest == own).to(torch.promote_types(queries.dtype, torch.float32)).mean()


def without_equal(logits: Tensor, equal: Tensor | None, own: Tensor) -> Tensor:
    """Set the logits (B, N) or (B, views, N) of ``equal`` texts' keys to −∞, except at the indices ``own`` (B,)."""
    if equal is None:
        return logits
    others = equal.scatter(1, own[:, None], value=False)
    return logits.masked_fill(others if logits.ndim == 2 else others[:, None], float("-inf"))


def own_or_equal(logits: Tensor, equal: Tensor | None, own: Tensor) -> Tensor:
    """Return which keys of logits (B, N) are the query's ``own`` (B,), or of ``equal`` texts (B, N; None: none)."""
    mask = torch.zeros_like(logits, dtype=torch.bool) if equal is None else equal
    return mask.scatter(1, own[:, None], value=True)


def cosine_matrix(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the cosines of all pairs, (B, M), of vectors (B, d) and (M, d)."""
    return F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T


def _inner_products(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.T


def at_least_fp32(vectors: Tensor) -> Tensor:
    """Return vectors in fp32, those in fp64 as they are: under autocast an encoder's are in bf16."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


@contextlib.contextmanager
def full_precision(tensor: Tensor) -> Iterator[None]:
    """Disable autocast on the tensor's device inside the block: heads and losses are computed in fp32."""
    with torch.autocast(tensor.device.type, enabled=False):
        yield
