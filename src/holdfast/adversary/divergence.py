"""Divergences of two distributions over the coordinates of a projected vector (V-advCSE, eq. 11-14)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Divergence = Literal["js", "kl", "symmetric-kl"]


def divergence_between(clean: Tensor, perturbed: Tensor, kind: Divergence) -> Tensor:
    """Return F(P, Q), (B,) ≥ 0, with P = softmax(clean) and Q = softmax(perturbed) over the columns of (B, d).

    ``"kl"``: ``Σ_x P(x) log(P(x)/Q(x))`` (eq. 11); ``"symmetric-kl"``: ``(KL(P‖Q) + KL(Q‖P))/2`` (eq. 12); ``"js"``:
    ``(KL(P‖M) + KL(Q‖M))/2`` with ``M = (P+Q)/2`` (eq. 13-14), at most ln 2; gradient flows through M.
    """
    log_p, log_q = clean.log_softmax(dim=-1), perturbed.log_softmax(dim=-1)
    if kind == "kl":
        return kl(log_p, log_q)
    if kind == "symmetric-kl":
        return (kl(log_p, log_q) + kl(log_q, log_p)) / 2
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return (kl(log_p, log_m) + kl(log_q, log_m)) / 2


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(P‖Q) of each row, (B,), from log-probabilities (B, d)."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1)
