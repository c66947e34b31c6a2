"""What a defence is, and the passes of a classifier over a batch that defences are made of."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.attacks.classifier import Text
from holdfast.backbone import Backbone
from holdfast.classifiers.losses import task_loss
from holdfast.devices import random_states, set_random_states
from holdfast.encoder import attacking


@dataclass(frozen=True)
class Batch:
    """What a step learns from.

    Attributes:
        features: ``input_ids``, ``attention_mask`` and what else the tokeniser gives, (B, L).
        labels: (B,): class numbers, or floating scores.
        rows: the numbers of the B texts among those that are trained on.
    """

    features: Mapping[str, Tensor]
    labels: Tensor
    rows: Sequence[int]


@dataclass(frozen=True)
class Training:
    """A training that is about to begin.

    Attributes:
        model: the classifier, with the weights it starts from.
        tokenizer: its tokeniser.
        texts: what is trained on.
        max_length: tokens per text or pair.
        epochs: passes over the texts that will be made.
    """

    model: Any
    tokenizer: Any
    texts: Sequence[Text]
    max_length: int
    epochs: float


@dataclass(frozen=True)
class Moment:
    """Where a training is.

    Attributes:
        step: optimiser steps that have been made.
        steps: those that will have been made at the end.
        epoch: passes over the texts that have been made, with their fraction.
    """

    step: int
    steps: int
    epoch: float


class Defence(ABC):
    """Turns a batch into the losses that a classifier is trained on.

    Its options are the keyword-only arguments of its class; a value that makes no sense is a ``ValueError``.

    Attributes:
        diagnostics: scalars of the last step, logged beside the loss.
    """

    IDEA: ClassVar[str]
    CITATION: ClassVar[str] = ""
    EPOCHS: ClassVar[float] = 3.0
    NEEDS_FP32: ClassVar[bool] = False
    """Whether what it measures is lost in the rounding of bf16."""

    clean_epochs: float = 0.0
    """Passes over the texts at the beginning that are without the defence: what is there after them is not defended,
    and is never the model that is kept."""

    def __init__(self) -> None:
        self.diagnostics: dict[str, Tensor] = {}

    def begin(self, training: Training) -> None:  # noqa: B027  # most need nothing of it
        """Take what is needed of a training before its first step, or before it is resumed.

        Raises:
            UserError: the defence cannot be had with this model, these texts or so short a training.
        """

    @abstractmethod
    def losses(self, model: nn.Module, batch: Batch, moment: Moment) -> Iterator[Tensor]:
        """The losses of a step, scalars with gradient.

        Whoever trains goes backward through each before asking for the next, so that the gradients of the parameters
        add up, and those of the defence's own leaves are there when it goes on.

        Args:
            model: a Hugging Face sequence classifier in training mode; each loss is made under the training's autocast.
            batch: what to learn from.
            moment: where the training is.
        """

    def follow(self, model: nn.Module, moment: Moment) -> None:  # noqa: B027  # most stay where they are
        """Move on after an optimiser step; ``moment`` counts it."""

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold for a resumed training to go on in the same bits."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:  # noqa: B027  # most have none
        """Take over the :meth:`state` of a checkpoint."""


class Passes:
    """A classifier's passes over one batch.

    All training passes have the same dropout masks, as FreeLB asks for (Zhu et al. 2020, §3.3): what differs between
    two of them is the perturbation alone. Afterwards the random state is as after a single pass.

    Args:
        model: the classifier, or a data-parallel wrapper of it; the passes go to the model itself.
        batch: the batch.
    """

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        self.model: Any = getattr(model, "module", model)
        self.batch = batch
        self.backbone = Backbone.of_transformer(self.model.base_model)
        parameter = next(self.model.parameters())
        kind = torch.promote_types(parameter.dtype, torch.float32)
        self.mask: Tensor = batch.features["attention_mask"].to(kind)
        self._device: torch.device = parameter.device
        self._random = random_states(self._device)

    @property
    def no_delta(self) -> Tensor:
        """The perturbation by nothing, (B, L, d), in fp32 or better."""
        return self.mask.new_zeros(1).expand(*self.mask.shape, self.model.config.hidden_size)

    def logits(self, delta: Tensor | None = None) -> Tensor:
        """The logits (B, C), with δ (B, L, d) added once to what enters the first layer; not at padding."""
        if self.model.training:
            set_random_states(self._device, self._random)
        perturbed = contextlib.nullcontext() if delta is None else self.backbone.perturbed(delta, self.mask)
        with perturbed:
            logits: Tensor = self.model(**self.batch.features).logits
        return logits

    def loss(self, delta: Tensor | None = None) -> Tensor:
        """The task's loss, a scalar."""
        return task_loss(self.logits(delta), self.batch.labels)

    @contextlib.contextmanager
    def attack(self) -> Iterator[None]:
        """Passes inside are an attack's: no dropout, frozen parameters; mode and random state are restored after."""
        with attacking(self.model):
            yield
