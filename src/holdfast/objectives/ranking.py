"""Losses of rankings: lists of similarities (B, N) against those of a teacher, row by row (RankCSE)."""

from __future__ import annotations

import torch
from torch import Tensor

_LEFT_OUT = -1e4
"""Logit of what is left out: its probability is 0 in fp32 and fp64, and the gradients remain finite."""


def without(logits: Tensor, left_out: Tensor | None) -> Tensor:
    """Return logits (B, N) that give the entries of the mask ``left_out`` (B, N) the probability 0; None: all stay."""
    return logits if left_out is None else logits.masked_fill(left_out, _LEFT_OUT)


def list_mle(logits: Tensor, scores: Tensor, left_out: Tensor | None = None, *, floor: float = 0.0) -> Tensor:
    """Return −log of the probability of the teacher's order, (B,): ListMLE (Xia et al., ICML 2008; RankCSE).

    The list is drawn entry by entry, each with the softmax of ``logits`` over the entries that remain. Entries of equal
    score are in the order of their columns.

    Args:
        logits: similarities divided by their temperature, (B, N).
        scores: those of the teacher, whose descending order is learned, (B, N).
        left_out: true for entries that are in no list, (B, N); None: none.
        floor: is added inside the logarithm, after the row's largest exponential was scaled to 1.
    """
    if left_out is not None:
        scores = scores.masked_fill(left_out, float("-inf"))
    order = scores.argsort(dim=1, descending=True, stable=True)
    sorted_logits = without(logits, left_out).gather(1, order)
    remaining = sorted_logits.flip(1).logcumsumexp(dim=1).flip(1)
    if floor:
        most = sorted_logits.amax(dim=1, keepdim=True)
        remaining = ((remaining - most).exp() + floor).log() + most
    terms = remaining - sorted_logits
    if left_out is not None:
        terms = terms.masked_fill(left_out.gather(1, order), 0.0)
    return terms.sum(dim=1)


def list_net(logits: Tensor, teacher_logits: Tensor, left_out: Tensor | None = None) -> Tensor:
    """Return the cross-entropy of the teacher's softmax and ours, (B,): ListNet (Cao et al., ICML 2007; RankCSE).

    Args:
        logits: similarities divided by their temperature, (B, N).
        teacher_logits: those of the teacher, divided by theirs, (B, N).
        left_out: true for entries that are in no list, (B, N); None: none.
    """
    wanted = without(teacher_logits, left_out).softmax(dim=1)
    if left_out is not None:
        wanted = wanted.masked_fill(left_out, 0.0)  # a list without entries has no loss
    return -(wanted * without(logits, left_out).log_softmax(dim=1)).sum(dim=1)


def released_consistency(first: Tensor, second: Tensor) -> Tensor:
    """Return the term of consistency of perceptiveshawty/RankCSE, a scalar, of the logits of both views, (B, N).

    It is meant to be the Jensen-Shannon divergence. But the logarithm of the mean is limited to 1e-7 *from below*,
    hence constant, and what remains is minus the mean entropy of both views.
    """
    total = first.new_zeros(())
    for logits in (first, second):
        share = logits.softmax(dim=1).clamp(min=1e-7)
        total = total + (share * (share.log() - 1e-7)).sum(dim=1).mean()
    return total / 2


def mean_correlation(cosines: Tensor, scores: Tensor, left_out: Tensor | None) -> Tensor:
    """Return the correlation of two rows' listed entries, in the mean over the rows of (B, N), a scalar."""
    listed = torch.ones_like(cosines) if left_out is None else (~left_out).to(cosines)
    count = listed.sum(dim=1, keepdim=True).clamp_min(1.0)

    def centred(values: Tensor) -> Tensor:
        return (values - (values * listed).sum(dim=1, keepdim=True) / count) * listed

    ours, theirs = centred(cosines), centred(scores)
    lengths = torch.linalg.vector_norm(ours, dim=1) * torch.linalg.vector_norm(theirs, dim=1)
    mean: Tensor = ((ours * theirs).sum(dim=1) / lengths.clamp_min(torch.finfo(ours.dtype).tiny)).mean()
    return mean
