"""What a classifier is trained on: the loss of its task, and how far apart two of its outputs are."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from holdfast.adversary.divergence import kl


def task_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean loss over the batch, a scalar, computed in fp32 or better.

    Args:
        logits: (B, C) for classes; (B, 1) for a score.
        labels: (B,), whole numbers for the cross-entropy of classes, or floating ones for the squared error of a score.
    """
    if labels.is_floating_point():
        scores = _in_full(logits).squeeze(-1)
        return F.mse_loss(scores, labels.to(scores.dtype))
    return F.cross_entropy(_in_full(logits), labels)


def divergence(logits: Tensor, reference: Tensor) -> Tensor:
    """How far outputs are from a reference: the mean over the batch of SMART's ℓ_s, a scalar ≥ 0 (SMART, §2.1).

    ``KL(P‖Q) + KL(Q‖P)`` with P and Q the softmax of both, or the squared difference where there is one column: a
    score. Gradient flows into both arguments.

    Args:
        logits: (B, C), or (B, 1) for a score.
        reference: of the same shape.
    """
    mine, theirs = _in_full(logits), _in_full(reference)
    if logits.shape[-1] == 1:
        return F.mse_loss(mine, theirs)
    log_p, log_q = mine.log_softmax(dim=-1), theirs.log_softmax(dim=-1)
    return (kl(log_p, log_q) + kl(log_q, log_p)).mean()


def _in_full(logits: Tensor) -> Tensor:
    return logits if logits.is_floating_point() and logits.element_size() >= 4 else logits.float()
