"""Parameters that get no gradient: during an attack all of them, in a training those that do not affect the vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from holdfast.backbone import Features
from holdfast.devices import random_numbers_kept
from holdfast.models import evaluating

if TYPE_CHECKING:
    from holdfast.encoder import Encoder


@contextlib.contextmanager
def attacking(model: nn.Module, *, dropout: bool = False) -> Iterator[None]:
    """Freeze parameters and turn dropout off, unless ``dropout``; modes, ``requires_grad`` and the RNG are restored."""
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    device = flags[0][0].device
    mode = contextlib.nullcontext() if dropout else evaluating(model)
    with random_numbers_kept(device), mode:
        try:
            for parameter, _ in flags:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter, flag in flags:
                parameter.requires_grad_(flag)


def freeze_unused(encoder: Encoder, features: Features) -> list[str]:
    """Freeze the parameters that do not affect sentence vectors, such as BERT's pooler with [CLS]; return their names.

    They get no gradient, which data-parallel training refuses. One backward pass on ``features`` finds them.
    """
    model = encoder.model
    trainable = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    with evaluating(model):
        vectors = model(dict(features))["sentence_embedding"]
    grads = torch.autograd.grad(vectors.sum(), [parameter for _, parameter in trainable], allow_unused=True)
    unused = [(name, parameter) for (name, parameter), grad in zip(trainable, grads, strict=True) if grad is None]
    for _, parameter in unused:
        parameter.requires_grad_(False)
    return [name for name, _ in unused]
