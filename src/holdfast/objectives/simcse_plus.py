"""SimCSE++ (Xu, Shao, Chen and Liu, EMNLP 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.equal_texts import Duplicates
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.models import evaluating
from holdfast.objectives.contrastive import cosine_matrix, full_precision, own_or_equal
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import HeadKind
from holdfast.objectives.option_checks import check_not_negative, check_positive
from holdfast.objectives.own_idea import attributes_replaced

_EPS = 1e-5
"""Added to the variance of a dimension, as in batch normalisation."""


class SimCSEPlus(ContrastiveObjective):
    r"""SimCSE with negatives that are encoded without dropout, and with a contrast of the dimensions.

    With two dropout passes :math:`z_i, z_i^+` of a sentence, and a third pass :math:`n_i` without dropout

    .. math::
        \ell_i = -\log \frac{e^{m\,\mathrm{sim}(z_i, z_i^+)/\tau}}{e^{m\,\mathrm{sim}(z_i, z_i^+)/\tau}
            + \sum_{j \ne i} e^{\mathrm{sim}(n_i, n_j)/\tau}}

    With the values of dimension c over the N sentences, of mean 0 and variance 1 in each view, as columns
    :math:`\hat z_c` and :math:`\hat z_c^+`

    .. math::
        L_{\mathrm{DCL}} = -\frac1d \sum_c \log \frac{e^{\hat z_c \cdot \hat z_c^+ / (N \tau_d)}}
            {\sum_{c'} e^{\hat z_c \cdot \hat z_{c'}^+ / (N \tau_d)}}, \qquad
        L = \frac1N \sum_i \ell_i + \lambda L_{\mathrm{DCL}}

    The columns are those of the joined batch of all processes.

    Args:
        positive_scale: m.
        negatives_dropout: use SimCSE's negatives, :math:`\mathrm{sim}(z_i, z_j^+)`: without the third pass.
        dimension_weight: λ; 0: no contrast of dimensions.
        dimension_temperature: τ_d.

    Sources of the defaults, and differences from the release: ``docs/methods/simcse-plus.md``.

    Inputs:
        A column of sentences, (B,). Returns ``{"contrastive", "dimensions"}``, without the second if λ is 0.
    """

    TITLE: ClassVar = "SimCSE++"
    OWN_POSITIVES: ClassVar = "their positives are dropout views"
    IDEA: ClassVar = "SimCSE with negatives without dropout, and with a contrast of the vectors' dimensions (DCL)"
    OWN_IDEA: ClassVar = "negatives without dropout and the contrast of dimensions"
    CITATION: ClassVar = (
        "Xu, Shao, Chen and Liu. SimCSE++: Improving Contrastive Learning for Sentence Embeddings from Two "
        "Perspectives. EMNLP 2023."
    )
    PRESETS: ClassVar = {
        "paper": {"duplicates": "keep"},
        "as_released": {"positive_scale": 0.9, "dimension_temperature": 10.0, "duplicates": "keep"},
    }
    COST: ClassVar = 1.53
    IDEA_SHARE: ClassVar = 0.80

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        positive_scale: float = 1.0,
        negatives_dropout: bool = False,
        dimension_weight: float = 0.1,
        dimension_temperature: float = 5.0,
        head: HeadKind = "tanh",
        duplicates: Duplicates = "mask",
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_positive(positive_scale=positive_scale, dimension_temperature=dimension_temperature)
        check_not_negative(dimension_weight=dimension_weight)
        self.positive_scale, self.negatives_dropout = positive_scale, negatives_dropout
        self.dimension_weight, self.dimension_temperature = dimension_weight, dimension_temperature

    def needs_dropout(self, columns: int) -> bool:
        """Return True: the positives are dropout views."""
        return True

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run the pass of both views and one without dropout; return the terms, scalars."""
        sentences, _ = self.columns(sentence_features)
        encoder, still = self.encoder, None
        h = encoder.encode(sentences, views=2)
        if not self.negatives_dropout:
            with evaluating(encoder.model):
                still = encoder.encode(sentences)
        equal = self.equal_texts(sentences)

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, z_positive = self.head(cut(h)).chunk(2)
            return self.compute_loss(z, z_positive, None if still is None else self.head(cut(still)), equal)

        return self.at_each_dimension(terms)

    def compute_loss(
        self, z: Tensor, z_positive: Tensor, negatives: Tensor | None, equal: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the terms of projected vectors, each (B, d); ``negatives`` are n_i, None: SimCSE's are used.

        ``equal`` is (B, N), as returned by `equal_texts`.
        """
        first, second = (z, z_positive) if negatives is None else (negatives, negatives)
        terms = {"contrastive": self.losses_of_texts(z, z_positive, first, second, equal).mean()}
        if self.dimension_weight:
            terms["dimensions"] = self.dimension_weight * self.dimension_loss(z, z_positive)
        return terms

    def losses_of_texts(
        self, z: Tensor, z_positive: Tensor, first: Tensor, second: Tensor, equal: Tensor | None = None
    ) -> Tensor:
        """Return ℓ of each sentence, (B,), with the cosines of ``first`` and the others' ``second`` as negatives."""
        keys, offset = gather_keys(second)
        own = offset + torch.arange(len(z), device=z.device)
        with full_precision(z):
            others = cosine_matrix(first, keys) / self.temperature  # (B, N)
            others = others.masked_fill(own_or_equal(others, equal, own), float("-inf"))
            positive = self.positive_scale * torch.cosine_similarity(z, z_positive, dim=1) / self.temperature
            return torch.cat([positive[:, None], others], dim=1).logsumexp(dim=1) - positive

    def dimension_loss(self, z: Tensor, z_positive: Tensor) -> Tensor:
        """Return L_DCL of the joined batch, a scalar."""
        with full_precision(z):
            columns = [_standardised(gather_keys(view)[0]) for view in (z, z_positive)]
            products = columns[0].T @ columns[1] / (len(columns[0]) * self.dimension_temperature)  # (d, d)
            return (products.logsumexp(dim=1) - products.diagonal()).mean()

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which the loss is SimCSE's."""
        return attributes_replaced(self, negatives_dropout=True, dimension_weight=0.0, positive_scale=1.0)


def _standardised(rows: Tensor) -> Tensor:
    """Return rows (N, d) whose columns have mean 0 and variance 1 (the mean squared deviation, plus 1e-5)."""
    centred = rows - rows.mean(dim=0)
    return centred * (centred.square().mean(dim=0) + _EPS).rsqrt()
