"""Perturbations of the inputs of layers: δ at the first one, masks at the first k, for one group of rows at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.backbone import Backbone, added
from holdfast.length_groups import Group

Weakener = Tensor | tuple[Tensor, Tensor]
Affected = tuple[Group, bool]
"""The group of rows whose pass is running, and whether a prompt is before each text."""


@dataclass(frozen=True, eq=False)
class Perturbation:
    """The arguments of an active `Encoder.perturbed`; compared by identity."""

    delta: Tensor | None
    weakening: Sequence[Weakener] | None


@contextlib.contextmanager
def perturbed_layers(
    backbone: Backbone, perturbation: Perturbation, affected: Callable[[], Affected | None]
) -> Iterator[None]:
    """Perturb the inputs of a backbone's layers in every pass inside the context.

    Args:
        backbone: the model's backbone.
        perturbation: what is added and multiplied.
        affected: called in a pass; None: this pass is not perturbed.

    Raises:
        ValueError: there are no masks, or more than layers.
    """
    delta, weakening = perturbation.delta, perturbation.weakening
    passed = 0  # layers, by the pass that is running

    def at_first_layer(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        nonlocal passed
        passed = 0
        if (delta is None and not weakening) or (now := affected()) is None:
            return output
        if delta is not None:
            output = added(output, _delta_of(delta, now[0]))
        return output * _mask_of(weakening[0], *now) if weakening else output

    def after_layer(_module: nn.Module, _args: Any, output: Any) -> Any:
        nonlocal passed
        passed += 1
        if weakening is None or passed >= len(weakening) or (now := affected()) is None:
            return output
        hidden, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        hidden = hidden * _mask_of(weakening[passed], *now)
        return hidden if rest is None else (hidden, *rest)

    if weakening is not None and not 0 < len(weakening) <= backbone.depth:
        raise ValueError(f"{len(weakening)} weakening masks do not fit {backbone.depth} layers")
    handles = [backbone.embedding.register_forward_hook(at_first_layer)]
    for layer in backbone.layers[: len(weakening or [])]:
        handles.append(layer.register_forward_hook(after_layer))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def rows_of(tensor: Tensor, group: Group) -> Tensor:
    """Return a group's part of a tensor that broadcasts to (rows, L, d)."""
    if tensor.shape[0] != 1:
        tensor = tensor[group.rows]
    return tensor if tensor.shape[1] == 1 else tensor[:, group.columns]


def _mask_of(mask: Weakener, group: Group, prompted: bool) -> Tensor:
    """Return a group's part of a mask; a pair is summed here, at the smaller width of the group."""
    if isinstance(mask, Tensor):
        part = rows_of(mask, group)
        return part.masked_fill(group.text[..., None] == 0, 1) if prompted else part
    token, feature = (rows_of(part, group) for part in mask)
    return torch.where(group.text.bool().unsqueeze(-1), token + feature, 1.0)


def _delta_of(delta: Tensor, group: Group) -> Tensor:
    """Return a group's part of δ, zero at padding and at prompts.

    At padding a convolution, as in DeBERTa, would spread it.
    """
    return rows_of(delta, group) * group.text.unsqueeze(-1)
