"""SimCSE, unsupervised (Gao, Yao and Chen, EMNLP 2021), the baseline of all five papers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from torch import Tensor, nn

from holdfast.adversary.equal_texts import Duplicates
from holdfast.backbone import Features
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import AnyHeadKind


class SimCSE(ContrastiveObjective):
    r"""Two dropout passes of the same sentence are positives; the other sentences of the batch are negatives.

    .. math::
        \ell_i = -\log \frac{e^{\mathrm{sim}(z_i, z_i^+)/\tau}}{\sum_{j} e^{\mathrm{sim}(z_i, z_j^+)/\tau}}

    (SimCSE, eq. 4) with :math:`z = g(h)`, h the sentence vector, g the train-only head and sim the cosine. With
    several processes the keys :math:`z_j^+` of all of them are joined, with gradient.

    Args:
        head: "tanh" for ``Linear(d, d)`` + ``Tanh`` (dropped after training), "none", or "bn" for V-advCSE's head with
            batch normalisation (its Table 4). With "bn" each of the two views is a batch, joined over all processes,
            with its own statistics; the running ones move once per step, by the average of the views.

    Sources of the defaults, and differences from the release: ``docs/methods/simcse.md``.

    Inputs:
        A column of sentences, (B,); an optional second column holds their positives. Returns ``{"contrastive"}``.

    Example:
        >>> from datasets import Dataset
        >>> from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
        >>> from holdfast.objectives import SimCSE
        >>> model = SentenceTransformer("bert-base-uncased")  # doctest: +SKIP
        >>> data = Dataset.from_dict({"sentence": ["A cat sleeps.", "Rain fell all day.", "She sold the house."]})
        >>> SentenceTransformerTrainer(model, train_dataset=data, loss=SimCSE(model)).train()  # doctest: +SKIP
    """

    TITLE: ClassVar = "SimCSE"
    IDEA: ClassVar = "two dropout passes of a sentence are pulled together, the batch's others pushed away (eq. 4)"
    HEADS: ClassVar = AnyHeadKind
    CITATION: ClassVar = "Gao, Yao and Chen. SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021."
    PRESETS: ClassVar = {"paper": {"duplicates": "keep"}}
    COST: ClassVar = 1.00

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        head: AnyHeadKind = "tanh",
        duplicates: Duplicates = "mask",
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)

    def needs_dropout(self, columns: int) -> bool:
        """Return True unless the data has positives."""
        return columns == 1

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run one forward pass of both views; return ``{"contrastive": scalar}``."""
        sentences, positives = self.columns(sentence_features)
        h = self.pair_vectors(sentences, positives)
        equal = self.equal_texts(sentences, positives)

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, z_positive = self.head(cut(h), views=2).chunk(2)
            return {"contrastive": self.compute_loss(z, z_positive, equal)}

        return self.at_each_dimension(terms)

    def compute_loss(self, z: Tensor, z_positive: Tensor, equal: Tensor | None = None) -> Tensor:
        """Return InfoNCE of projected vectors z and their positives, both (B, d); ``equal`` is from `equal_texts`."""
        return self.in_batch_loss(z, z_positive, equal)
