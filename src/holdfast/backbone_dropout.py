"""Dropout of a transformer: whether it has one in training, and another probability for a while.

Encoders have dropout modules; the attention of decoders reads a number, which is 0 in most configurations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn


def has_dropout(model: nn.Module) -> bool:
    """Return True if a probability of dropout in the model is above 0, so that two training passes differ."""
    return any(getattr(module, name) > 0 for module, name in _probabilities(model))


@contextlib.contextmanager
def dropout_of(model: nn.Module, probability: float | None) -> Iterator[None]:
    """Set another dropout probability inside the block; None: keep the model's own.

    The dropout of adapters keeps its own.
    """
    found = _probabilities(model, adapters=False) if probability is not None else []
    before = [getattr(module, name) for module, name in found]
    for module, name in found:
        setattr(module, name, float(probability or 0.0))
    try:
        yield
    finally:
        for (module, name), own in zip(found, before, strict=True):
            setattr(module, name, own)


def _probabilities(model: nn.Module, *, adapters: bool = True) -> list[tuple[nn.Module, str]]:
    """Return the attributes with a probability of dropout: ``p`` of dropout modules, and numbers of other modules."""
    found: list[tuple[nn.Module, str]] = []
    for path, module in model.named_modules():
        if not adapters and "lora_dropout" in path:
            continue
        if isinstance(module, nn.Dropout):
            found.append((module, "p"))
        else:
            found += [(module, name) for name, value in vars(module).items() if _is_probability(name, value)]
    return found


def _is_probability(name: str, value: object) -> bool:
    return "dropout" in name and isinstance(value, (int, float)) and not isinstance(value, bool)
