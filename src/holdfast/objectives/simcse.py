"""SimCSE, unsupervised (Gao, Yao and Chen, EMNLP 2021), the baseline of all five papers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.equal_texts import Duplicates
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.heads import AnyHeadKind, make_head
from holdfast.objectives.objective import Objective
from holdfast.objectives.option_checks import check_positive


class SimCSE(Objective):
    r"""Two dropout passes of the same sentence are positives; the other sentences of the batch are negatives.

    .. math::
        \ell_i = -\log \frac{e^{\mathrm{sim}(z_i, z_i^+)/\tau}}{\sum_{j} e^{\mathrm{sim}(z_i, z_j^+)/\tau}}

    (SimCSE, eq. 4) with :math:`z = g(h)`, h the sentence vector, g the train-only head and sim the cosine. With
    several processes the keys :math:`z_j^+` of all of them are joined, with gradient.

    Args:
        model: the ``SentenceTransformer`` to train, in training mode with its dropout on.
        temperature: τ.
        head: "tanh" for ``Linear(d, d)`` + ``Tanh`` (dropped after training), "none", or "bn" for V-advCSE's head with
            batch normalisation (its Table 4). With "bn" each of the two views is a batch, joined over all processes,
            with its own statistics; the running ones move once per step, by the average of the views.
        duplicates: "mask": equal texts are not used as negatives of each other; "keep": they are, as in the paper.

    Differences from the release: the negatives of other processes carry gradient (in the release only a process's own
    do). With head="bn", V-advCSE's release moves the running statistics once per view; they are used only in evaluation
    mode.

    Inputs:
        A column of sentences, (B,); an optional second column holds their positives. Returns ``{"contrastive"}``.

    Example:
        >>> from datasets import Dataset
        >>> from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
        >>> from holdfast.objectives import SimCSE
        >>> model = SentenceTransformer("bert-base-uncased")  # doctest: +SKIP
        >>> data = Dataset.from_dict({"sentence": ["A cat sleeps.", "Rain fell all day.", "She sold the house."]})
        >>> SentenceTransformerTrainer(model, train_dataset=data, loss=SimCSE(model)).train()  # doctest: +SKIP

    Citation:
        Tianyu Gao, Xingcheng Yao, Danqi Chen. SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021.
    """

    TITLE: ClassVar = "SimCSE"
    IDEA: ClassVar = "two dropout passes of a sentence are pulled together, the batch's others pushed away (eq. 4)"
    CITATION: ClassVar = "Gao, Yao and Chen. SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021."
    PRESETS: ClassVar = {"paper": {"duplicates": "keep"}}
    COST: ClassVar = 1.00
    TRAINING: ClassVar = {"learning_rate": 3e-5, "batch_size": 64, "epochs": 1.0}

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        head: AnyHeadKind = "tanh",
        duplicates: Duplicates = "mask",
    ) -> None:
        super().__init__(model, duplicates=duplicates)
        check_positive(temperature=temperature)
        self.temperature = temperature
        self.head = make_head(self.encoder.dimension, head)

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run one forward pass of both views; return ``{"contrastive": scalar}``."""
        sentences, positives = self.columns(sentence_features)
        encoder = self.encoder
        if positives is None:
            h = encoder.encode(sentences, views=2)
        else:
            h = torch.cat([encoder.encode(sentences), encoder.encode(positives)])
        z, z_positive = self.head(h, views=2).chunk(2)
        return {"contrastive": self.compute_loss(z, z_positive, self.equal_texts(sentences, positives))}

    def compute_loss(self, z: Tensor, z_positive: Tensor, equal: Tensor | None = None) -> Tensor:
        """Return InfoNCE of projected vectors z and their positives, both (B, d); ``equal`` is from `equal_texts`."""
        keys, offset = gather_keys(z_positive)
        return info_nce(z, [keys], temperature=self.temperature, offset=offset, equal=equal)
