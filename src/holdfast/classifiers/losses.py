"""Losses of a classifier's training: the loss of its task, and a divergence between two of its outputs."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from holdfast.adversary.divergence import kl


def task_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss over the batch, a scalar, computed in fp32 or better.

    It is the cross-entropy for logits (B, C) and integers (B,), the squared error for (B, 1) and floats (B,).
    """
    if labels.is_floating_point():
        scores = _in_full(logits).squeeze(-1)
        return F.mse_loss(scores, labels.to(scores.dtype))
    return F.cross_entropy(_in_full(logits), labels)


def divergence(logits: Tensor, reference: Tensor) -> Tensor:
    """Return the mean over the batch of SMART's divergence ℓ_s of logits (B, C), a scalar ≥ 0 (SMART, §2.1).

    ℓ_s is ``KL(P‖Q) + KL(Q‖P)``, where P and Q are the softmax of the two arguments, or the squared difference if there
    is one column (a score). Gradient flows into both arguments.
    """
    outputs, references = _in_full(logits), _in_full(reference)
    if logits.shape[-1] == 1:
        return F.mse_loss(outputs, references)
    log_p, log_q = outputs.log_softmax(dim=-1), references.log_softmax(dim=-1)
    return (kl(log_p, log_q) + kl(log_q, log_p)).mean()


def _in_full(logits: Tensor) -> Tensor:
    return logits if logits.is_floating_point() and logits.element_size() >= 4 else logits.float()
