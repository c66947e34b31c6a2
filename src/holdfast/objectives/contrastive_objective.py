"""The base class of objectives that contrast the projected vectors of a batch."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.equal_texts import Duplicates
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.heads import AnyHeadKind, HeadKind, make_head
from holdfast.objectives.objective import Objective
from holdfast.objectives.option_checks import check_positive, check_words


class ContrastiveObjective(Objective):
    """Base class of objectives that contrast z = g(h), with h the sentence vector and g the train-only head.

    Args:
        model: the ``SentenceTransformer`` to train.
        temperature: τ.
        head: "tanh" for ``Linear(d, d)`` + ``Tanh`` (dropped after training), or "none".
        duplicates: "mask": equal texts are not used as negatives of each other; "keep": they are, as in the paper.
    """

    HEADS: ClassVar[Any] = HeadKind
    """The kinds of heads that the method takes."""

    def __init__(self, model: nn.Module, *, temperature: float, head: AnyHeadKind, duplicates: Duplicates) -> None:
        super().__init__(model, duplicates=duplicates)
        check_positive(temperature=temperature)
        check_words(head=(head, self.HEADS))
        self.temperature = temperature
        self.head = make_head(self.encoder.dimension, head)

    def pair_vectors(self, sentences: Features, positives: Features | None) -> Tensor:
        """Return the vectors of B sentences, then of their positives, (2B, d); without these, of two dropout views."""
        if positives is None:
            return self.encoder.encode(sentences, views=2)
        return torch.cat([self.encoder.encode(sentences), self.encoder.encode(positives)])

    def in_batch_loss(self, z: Tensor, z_positive: Tensor, equal: Tensor | None) -> Tensor:
        """Return InfoNCE of z with the positives of all processes' sentences as keys, both (B, d).

        ``equal`` is (B, N), as returned by `equal_texts`.
        """
        keys, offset = gather_keys(z_positive)
        return info_nce(z, [keys], temperature=self.temperature, offset=offset, equal=equal)
