"""The share of the encoder's gradient that a method's own idea contributes.

For one batch, g is the gradient of the loss with respect to the encoder's parameters, g₀ that of the loss without the
idea (`Objective.without_idea`), with the same dropout. The share is ‖g − g₀‖ / ‖g‖: 0 where the idea changes nothing, 1
where all of the gradient comes from it, more than 1 where it opposes the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from holdfast.backbone import Features
from holdfast.devices import random_states, set_random_states

if TYPE_CHECKING:
    from holdfast.objectives.objective import Objective

_OF_MODULES = frozenset(vars(nn.Module()))
"""The attributes that torch keeps in every module."""


def idea_share(objective: Objective, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
    """Return the share of the idea in one batch, a scalar; objective and random numbers are left unchanged.

    With several processes it is that of this process's gradient; all processes must call it together.

    Raises:
        NotImplementedError: the method is a baseline.
    """
    columns = [dict(features) for features in sentence_features]
    with left_unchanged(objective):
        gradient = encoder_gradient(objective, [dict(features) for features in columns], labels)
    with left_unchanged(objective), objective.without_idea():
        return relative_difference(gradient, encoder_gradient(objective, columns, labels))


def encoder_gradient(
    objective: Objective, sentence_features: Iterable[Features], labels: Tensor | None = None
) -> list[Tensor]:
    """Return the gradient of a batch's loss with respect to each trained parameter of the encoder.

    No ``.grad`` changes. With several processes it is the gradient before it is averaged over them; all processes must
    call it together.
    """
    model = objective.model
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # A forward pass that is not followed by a backward pass would be an error of the parallel model.
    with model.no_sync() if isinstance(model, DistributedDataParallel) else contextlib.nullcontext():
        loss = torch.stack(list(objective(sentence_features, labels).values())).sum()
        if not loss.requires_grad:  # a constant, such as ADCL's first loss with an empty queue
            return [torch.zeros_like(parameter) for parameter in parameters]
        return list(torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True))


@contextlib.contextmanager
def attributes_replaced(target: Any, **values: Any) -> Iterator[None]:
    """Give attributes or methods of an object other values inside the block; restore them in any case.

    Raises:
        AttributeError: the object has no attribute of one of the names.
    """
    for name in values:
        getattr(target, name)
    before = {name: vars(target)[name] for name in values if name in vars(target)}
    try:
        for name, value in values.items():
            setattr(target, name, value)
        yield
    finally:
        for name in values:
            delattr(target, name)
        for name, value in before.items():
            setattr(target, name, value)


def relative_difference(gradients: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
    """Return ``‖g − g₀‖ / ‖g‖`` over all coordinates of the pairs of tensors, a scalar; 0 if both are zero."""
    apart = _length(one - other for one, other in zip(gradients, others, strict=True))
    return apart / _length(gradients).clamp_min(torch.finfo(torch.float32).tiny)


def _length(tensors: Iterable[Tensor]) -> Tensor:
    norms = [torch.linalg.vector_norm(each, dtype=torch.promote_types(each.dtype, torch.float32)) for each in tensors]
    length: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return length


@contextlib.contextmanager
def left_unchanged(module: nn.Module) -> Iterator[None]:
    """Restore, after the block, the buffers and the other state of a module, and the random states.

    Restored are attributes, the contents of lists, dictionaries and sets, and ``torch.Generator`` objects, also of the
    submodules; parameters are not, since a pass does not change them.
    """
    device = next(module.parameters()).device
    states = random_states(device)
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    attributes = [(each, _attributes(each)) for each in module.modules()]
    generators = [(each, each.get_state()) for _, found in attributes for each in _generators(found)]
    try:
        yield
    finally:
        set_random_states(device, states)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for generator, state in generators:
            generator.set_state(state)
        for each, found in attributes:
            for name in vars(each).keys() - found.keys() - _OF_MODULES:
                delattr(each, name)
            vars(each).update(found)


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return the attributes of a module, without torch's own; containers are copied."""
    own = {name: value for name, value in vars(module).items() if name not in _OF_MODULES}
    return {name: value.copy() if type(value) in (list, dict, set) else value for name, value in own.items()}


def _generators(attributes: Mapping[str, Any]) -> list[torch.Generator]:
    return [value for value in attributes.values() if isinstance(value, torch.Generator)]
