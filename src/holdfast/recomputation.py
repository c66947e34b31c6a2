"""Passes whose activations are not kept: they are computed again when the gradient arrives.

A contrastive loss needs the vectors of the whole batch, but not the activations of the encoder for all of it at once. A
large batch is encoded in mini-batches without their activations; the gradient of the loss with respect to the vectors
is computed as usual; then each mini-batch is encoded again, one at a time, and continues the backward pass.

Gao, Zhang, Han and Callan. Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup. RepL4NLP 2021
(GradCache); ``CachedMultipleNegativesRankingLoss`` of sentence-transformers. Here ``torch.utils.checkpoint`` does it,
so that the gradients of perturbations, and all losses above the vectors, need no special treatment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from holdfast.layer_perturbations import Perturbation


@dataclass(frozen=True)
class Pass:
    """The circumstances of a pass through the model besides its features, with which it can be made again."""

    embeddings: Tensor | None
    perturbations: tuple[Perturbation, ...]
    modes: list[bool]
    prompted: bool
    shortened: bool


def recomputed(
    run: Callable[[], Tensor], again: Callable[[], AbstractContextManager[None]], features: Tensor
) -> Tensor:
    """Return ``run()`` without keeping its activations; a backward pass calls ``run`` again.

    The second call, inside the context ``again()``, has the random numbers and the autocast of the first; the random
    states are restored after it. Gradients flow to everything that ``run`` uses. Without gradients it is ``run()``.

    Args:
        run: makes the pass; its two calls must do the same.
        again: restores the circumstances of the first call for the second.
        features: a tensor of the pass, whose device's random numbers are used.
    """
    calls = 0

    def once(_: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        with contextlib.nullcontext() if calls == 1 else again():
            return run()

    vectors: Tensor = checkpoint(once, features, use_reentrant=False)
    return vectors


def module_modes(model: nn.Module) -> list[bool]:
    """Return whether each module of ``model`` is in training mode, for :func:`modes_set`."""
    return [module.training for module in model.modules()]


@contextlib.contextmanager
def modes_set(model: nn.Module, modes: Sequence[bool]) -> Iterator[None]:
    """Set the modes returned by :func:`module_modes` inside the block, and restore the present ones."""
    before = module_modes(model)
    try:
        _set_modes(model, modes)
        yield
    finally:
        _set_modes(model, before)


def _set_modes(model: nn.Module, modes: Sequence[bool]) -> None:
    for module, mode in zip(model.modules(), modes, strict=True):
        module.training = mode
