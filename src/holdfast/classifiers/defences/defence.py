"""Base class of the defences, and the passes of a classifier over a batch that they use."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.training_attack_options import TrainingAttackOptions
from holdfast.attacks.classifier import Text
from holdfast.backbone import Backbone
from holdfast.classifiers.losses import task_loss
from holdfast.devices import random_states, set_random_states
from holdfast.encoder import attacking

PROMPT_TOKENS = "prompt_tokens"
"""The entry of ``config.holdfast`` with the number of tokens up to the end of a classifier's prompt."""


@dataclass(frozen=True)
class TaskBatch:
    """A batch of one training step.

    Attributes:
        features: ``input_ids``, ``attention_mask`` and the tokeniser's other outputs, (B, L).
        labels: (B,): class numbers, or floating scores.
        rows: the indices of the B texts in the training texts.
    """

    features: Mapping[str, Tensor]
    labels: Tensor
    rows: Sequence[int]


@dataclass(frozen=True)
class Training:
    """A training before its first step.

    Attributes:
        model: the classifier with its initial weights.
        tokenizer: its tokeniser.
        texts: the training texts.
        max_length: tokens per text or pair.
        epochs: planned number of passes over the texts.
    """

    model: Any
    tokenizer: Any
    texts: Sequence[Text]
    max_length: int
    epochs: float


@dataclass(frozen=True)
class Moment:
    """The progress of a training.

    Attributes:
        step: number of optimiser steps done.
        steps: number of optimiser steps at the end.
        epoch: number of passes over the texts done, with the fraction of the current one.
    """

    step: int
    steps: int
    epoch: float


class Defence(TrainingAttackOptions, ABC):
    """Base class of defences, which turn a batch into the losses of a training step.

    The options of a defence are the keyword-only arguments of its class; an invalid value raises ``ValueError``.

    Attributes:
        diagnostics: scalars of the last step, logged with the loss.
        notices: lines for the user, after :meth:`begin`.
    """

    IDEA: ClassVar[str]
    CITATION: ClassVar[str] = ""
    EPOCHS: ClassVar[float] = 3.0
    NEEDS_FP32: ClassVar[bool] = False
    """True if the effect of the defence is lost in the rounding of bf16."""
    NEEDS_MASKED_LM: ClassVar[bool] = False
    """True if the defence uses a masked LM: in tables of experiments, an option ``masked_lm`` that is not given names
    that of the attacks."""
    FILE_OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Options that name a model or a file: tables of experiments record the hashes of what they name."""

    clean_epochs: float = 0.0
    """Number of first passes over the texts without the defence: the model after them is not defended and is never
    selected."""

    def __init__(self) -> None:
        self.diagnostics: dict[str, Tensor] = {}
        self.notices: list[str] = []

    def begin(self, training: Training) -> None:  # most defences need nothing
        """Prepare for a training before its first step, or before it is resumed.

        Raises:
            UserError: the defence does not work with this model, these texts or this length of training.
        """

    @abstractmethod
    def losses(self, model: nn.Module, batch: TaskBatch, moment: Moment) -> Iterator[Tensor]:
        """Yield the losses of a step, scalars with gradient.

        The trainer calls backward on each loss before it takes the next, so that the parameters' gradients add up and
        the gradients of the defence's own leaves exist when the generator continues.

        Args:
            model: a Hugging Face sequence classifier in training mode; the losses are computed under its autocast.
            batch: the batch of the step.
            moment: the progress of the training.
        """

    def follow(self, model: nn.Module, moment: Moment) -> None:  # most defences have no state
        """Update the defence after an optimiser step; ``moment`` includes that step."""

    def state(self) -> dict[str, Tensor]:
        """Return the state that a checkpoint must hold so that a resumed training continues bit-exactly."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:  # most defences have no state
        """Load the :meth:`state` of a checkpoint."""


class Passes:
    """A classifier's passes over one batch.

    All training passes have the same dropout masks, as FreeLB requires (Zhu et al. 2020, §3.3): two passes differ only
    in the perturbation. Afterwards the random state is the same as after a single pass.

    Args:
        model: the classifier, or a data-parallel wrapper of it; the passes use the wrapped model.
        batch: the batch.
    """

    def __init__(self, model: nn.Module, batch: TaskBatch) -> None:
        self.model: Any = getattr(model, "module", model)
        self.batch = batch
        self.backbone = Backbone.of_transformer(self.model.base_model)
        parameter = next(self.model.parameters())
        kind = torch.promote_types(parameter.dtype, torch.float32)
        self.mask: Tensor = batch.features["attention_mask"].to(kind)
        if prompt := (getattr(self.model.config, "holdfast", None) or {}).get(PROMPT_TOKENS):
            # The prompt, and [CLS] before it, are never perturbed, as in encoders.
            self.mask = self.mask * (self.mask.cumsum(dim=1) > prompt)
        self._device: torch.device = parameter.device
        self._random = random_states(self._device)

    @property
    def no_delta(self) -> Tensor:
        """A perturbation of zeros, (B, L, d), in fp32 or better."""
        return self.mask.new_zeros(1).expand(*self.mask.shape, self.model.config.hidden_size)

    def logits(self, delta: Tensor | None = None) -> Tensor:
        """Return the logits (B, C), with δ (B, L, d) added to the input of the first layer, except at padding."""
        if self.model.training:
            set_random_states(self._device, self._random)
        perturbed = contextlib.nullcontext() if delta is None else self.backbone.perturbed(delta, self.mask)
        with perturbed:
            logits: Tensor = self.model(**self.batch.features).logits
        return logits

    def loss(self, delta: Tensor | None = None) -> Tensor:
        """Return the task's loss, a scalar."""
        return task_loss(self.logits(delta), self.batch.labels)

    @contextlib.contextmanager
    def attack(self) -> Iterator[None]:
        """Run the passes inside without dropout and with frozen parameters; then restore mode and random state."""
        with attacking(self.model):
            yield
