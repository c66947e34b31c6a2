"""What a classifier's loss is: cross-entropy on clean texts, or on what a defence makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F


class Defence(Protocol):
    """Turns a batch into the loss that is minimised."""

    name: str

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss of a batch, a scalar with gradient.

        Args:
            model: a Hugging Face sequence classifier in training mode; the call is already under autocast.
            batch: ``input_ids``, ``attention_mask`` and what else the tokeniser gives, (B, L); ``labels``, (B,).
        """


class NoDefence:
    """Cross-entropy on the texts as they are."""

    name = "none"

    def __call__(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """The mean cross-entropy over the batch."""
        features = {name: value for name, value in batch.items() if name != "labels"}
        return F.cross_entropy(model(**features).logits.float(), batch["labels"])


def defence_named(name: str) -> Defence:
    """The defence of a name that `FinetuneSettings.check` has let through."""
    return {"none": NoDefence}[name]()
