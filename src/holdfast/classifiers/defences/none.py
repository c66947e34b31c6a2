"""No defence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from holdfast.classifiers.defences.defence import Defence, Moment, TaskBatch
from holdfast.classifiers.losses import task_loss


class NoDefence(Defence):
    """The task's loss on the unchanged texts."""

    IDEA: ClassVar = "the unchanged texts"

    def losses(self, model: nn.Module, batch: TaskBatch, moment: Moment) -> Iterator[Tensor]:
        """Yield the mean loss over the batch."""
        yield task_loss(model(**batch.features).logits, batch.labels)
