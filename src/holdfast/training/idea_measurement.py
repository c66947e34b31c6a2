"""The share of the gradient that a method's own idea contributes, measured now and then in a training."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from holdfast.devices import random_states, set_random_states
from holdfast.distributed import joined
from holdfast.errors import emit_notice
from holdfast.objectives import Objective
from holdfast.objectives.own_idea import encoder_gradient, left_unchanged, relative_difference

SHARE = "idea_gradient_share"
"""The name of the diagnostic."""


class IdeaMeasurement:
    """Measures the idea's share (:mod:`holdfast.objectives.own_idea`) in some steps of a training, and changes nothing.

    g is the gradient of the step itself; g₀, without the idea, takes one more pass with the same random numbers: one in
    ``least_steps`` at most, so that a run becomes no more than 2 % longer. If there is no memory for g₀, nothing is
    measured, and a notice says so.

    Args:
        objective: the objective that is trained.
        least_steps: measure once in so many steps at most, and not in a run of fewer.

    Attributes:
        diagnostics: the share, if it was measured in the last step.
    """

    def __init__(self, objective: Objective, least_steps: int = 50) -> None:
        self.objective, self.least_steps = objective, least_steps
        self.diagnostics: dict[str, Tensor] = {}
        self._inputs: tuple[Any, Any] = ((), None)
        self._states: list[Tensor] = []

    def is_due(self, step: int, logging_steps: int, steps: int) -> bool:
        """Return True if a step, counted from 1, of a run of ``steps`` is to be measured: a step that is logged."""
        every = logging_steps * math.ceil(self.least_steps / logging_steps)
        return self.objective.has_idea and steps >= self.least_steps and (step - logging_steps) % every == 0

    @contextlib.contextmanager
    def of_step(self, autocast: Callable[[], AbstractContextManager[Any]], scale: int = 1) -> Iterator[None]:
        """Measure the training step inside the block, a forward and a backward pass.

        Args:
            autocast: returns the arithmetic of the step, for the pass without the idea.
            scale: number by which the step divides its gradient: of the batches that are accumulated.
        """
        handle = self.objective.register_forward_pre_hook(self._keep)
        try:
            yield
        finally:
            handle.remove()
        try:
            without = self._without_idea(autocast)
        except torch.OutOfMemoryError:  # the step itself had room
            if joined():  # the other processes wait for this one
                raise
            self.least_steps = sys.maxsize
            emit_notice("idea_gradient_share is not measured: there is no memory for a second gradient of the encoder")
            return
        finally:
            self._inputs = (), None
        # Of a step that does not average its gradient, such as the first of two that are accumulated, the part of
        # this process is measured there too: both are averaged here, which leaves an average as it is.
        gradient = [_gradient_of(parameter) for parameter in _trained(self.objective)]
        without = [part.div_(scale) for part in without]
        self.diagnostics = {SHARE: relative_difference(_averaged(gradient), _averaged(without))}

    def _without_idea(self, autocast: Callable[[], AbstractContextManager[Any]]) -> list[Tensor]:
        """Return g₀ of the batch that was kept."""
        features, labels = self._inputs
        with left_unchanged(self.objective):
            set_random_states(_device(self.objective), self._states)
            with self.objective.without_idea(), autocast():
                return encoder_gradient(self.objective, features, labels)

    def _keep(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Keep the inputs of the forward pass, and the random states before it."""
        columns, labels = inputs[0], inputs[1] if len(inputs) > 1 else None
        self._inputs = [dict(column) for column in columns], labels
        self._states = random_states(_device(self.objective))


def _trained(objective: Objective) -> list[nn.Parameter]:
    return [parameter for parameter in objective.model.parameters() if parameter.requires_grad]


def _gradient_of(parameter: nn.Parameter) -> Tensor:
    return parameter.new_zeros(parameter.shape) if parameter.grad is None else parameter.grad.detach()


def _averaged(gradients: list[Tensor]) -> list[Tensor]:
    """Return the mean of the gradients over all processes."""
    if not joined():
        return gradients
    means = [gradient.clone() for gradient in gradients]
    for mean in means:
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
    return means


def _device(objective: Objective) -> Any:
    return next(objective.parameters()).device
