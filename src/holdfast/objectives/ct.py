"""Contrastive Tension (Carlsson, Gyllensten, Gogoulou, Ylipää Hellqvist and Sahlgren, ICLR 2021)."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.equal_texts import Duplicates
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.encoder import Encoder, unwrap
from holdfast.errors import UserError
from holdfast.models import evaluating
from holdfast.objectives.contrastive import at_least_fp32, full_precision
from holdfast.objectives.objective import Objective
from holdfast.objectives.own_idea import attributes_replaced


class ContrastiveTension(Objective):
    r"""Two encoders with the same start learn to agree on equal sentences and to disagree on different ones.

    Both encoders f₁ and f₂ are trained. Each sentence makes one positive pair, with itself, and K negative pairs, with
    other sentences; the logit of a pair is the inner product of its vectors, and the loss is the mean binary
    cross-entropy over all pairs

    .. math::
        L = -\frac{1}{N(1+K)} \sum_i \Big[ \log \sigma\big(f_1(s_i)^\top f_2(s_i)\big)
            + \sum_{k \le K} \log\big(1 - \sigma(f_1(s_i)^\top f_2(s_{i+c_k}))\big) \Big]

    so that all positives together have weight 1/(1+K) and all negatives K/(1+K). The c_k are K different cyclic shifts
    of the batch, drawn at each optimiser step: every sentence is in K negative pairs for each encoder, so that the two
    encoders have equal roles. With several processes their batches are joined and shifted together. For a negative pair
    of equal texts the term is 0, and the other pairs keep their weights.

    Args:
        model: the ``SentenceTransformer`` to train: f₁, which is kept after training.
        negatives: K; a batch needs K + 2 sentences: with all other sentences as negatives, the two encoders would
            differ only by dropout.
        dropout: use the encoders' dropout in training.
        duplicates: "mask": two equal texts are not a negative pair; "keep": they are, as in the paper.

    Sources of the defaults, and differences from the release: ``docs/methods/ct.md``.

    Inputs:
        A column of sentences, (B,). Returns ``{"tension"}``.
    """

    TITLE: ClassVar = "CT"
    OWN_POSITIVES: ClassVar = "each is its own positive"
    IDEA: ClassVar = "two encoders agree on a sentence and disagree on different ones (binary cross-entropy of pairs)"
    OWN_IDEA: ClassVar = "the second encoder"
    IDEA_SHARE: ClassVar = 0.0056
    CITATION: ClassVar = (
        "Carlsson, Gyllensten, Gogoulou, Ylipää Hellqvist and Sahlgren. Semantic Re-tuning with Contrastive Tension. "
        "ICLR 2021."
    )
    PRESETS: ClassVar = {"paper": {"duplicates": "keep"}}
    DROPOUT_OPTION: ClassVar = "dropout"
    COST: ClassVar = 1.04
    TRAINING: ClassVar = {"learning_rate": 1e-5, "batch_size": 16, "epochs": 1.0}

    draws: Tensor

    def __init__(
        self, model: nn.Module, *, negatives: int = 7, dropout: bool = False, duplicates: Duplicates = "mask"
    ) -> None:
        super().__init__(model, duplicates=duplicates)
        if negatives < 1:
            raise ValueError(f"negatives must be 1 or more, got {negatives}")
        self.negatives, self.dropout = negatives, dropout
        # Not named "model": sentence-transformers' trainer replaces every attribute of that name by its model.
        self.second_encoder = copy.deepcopy(unwrap(model)).train()
        # A seed and the number of optimiser steps: the shifts are a function of both, equal on all processes and
        # after a resume.
        self.register_buffer("draws", torch.stack([torch.randint(2**31, ()), torch.tensor(0)]))

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run one pass of each encoder; return ``{"tension": scalar}``."""
        self.catch_up()
        sentences, _ = self.columns(sentence_features)
        first = self._vectors(self.encoder, sentences)
        second = self._vectors(self.encoder_of(self.second_encoder), sentences)
        keys, offset = gather_keys(second)
        equal = self.equal_texts(sentences)
        shifts = self.draw_shifts(len(keys))
        return self.at_each_dimension(
            lambda cut: {"tension": self.compute_loss(cut(first), cut(keys), shifts, offset, equal)}
        )

    def compute_loss(
        self, first: Tensor, second: Tensor, shifts: Tensor, offset: int = 0, equal: Tensor | None = None
    ) -> Tensor:
        """Return the mean binary cross-entropy over all pairs.

        Args:
            first: vectors f₁ of this process's sentences, (B, d).
            second: vectors f₂ of the joined batch, (N, d).
            shifts: c_k, (K,), none of them 0.
            offset: row of ``second`` that belongs to ``first[0]``.
            equal: (B, N), as returned by `equal_texts`.
        """
        rows = offset + torch.arange(len(first), device=first.device)
        others = (rows[:, None] + shifts.to(rows.device)) % len(second)  # (B, K)
        with full_precision(first):
            products = first @ second.T  # (B, N)
            positive = products.gather(1, rows[:, None])
            negative = products.gather(1, others)
        self.diagnostics["positive_product"] = positive.detach().mean()
        self.diagnostics["negative_product"] = negative.detach().mean()
        terms = F.softplus(negative)
        if equal is not None:
            terms = terms.masked_fill(equal.gather(1, others), 0.0)
        return torch.cat([F.softplus(-positive), terms], dim=1).mean()

    def draw_shifts(self, rows: int) -> Tensor:
        """Draw K different shifts of 1…rows−1, (K,), on the CPU."""
        least = self.negatives + 2  # with all other sentences as negatives the two encoders would stay equal
        if rows < least:
            raise UserError(f"negatives={self.negatives} needs a batch of {least} sentences or more, got {rows}")
        generator = torch.Generator().manual_seed(int(self.draws.sum()))
        return 1 + torch.randperm(rows - 1, generator=generator)[: self.negatives]

    def follow(self) -> None:
        """Count the optimiser step, so that the next one draws other shifts."""
        self.draws[1] += 1

    def _vectors(self, encoder: Encoder, sentences: Features) -> Tensor:
        with contextlib.nullcontext() if self.dropout else evaluating(encoder.model):
            vectors = encoder.encode(sentences)
        return at_least_fp32(vectors)

    @contextlib.contextmanager
    def without_idea(self) -> Iterator[None]:
        """Compute the loss of the encoder against itself inside the block: f₂'s vectors are f₁'s, as constants."""
        vectors, first = self._vectors, self.encoder

        def of_first(encoder: Encoder, sentences: Features) -> Tensor:
            if unwrap(encoder.model) is unwrap(self.model):
                return vectors(encoder, sentences)
            with torch.no_grad():
                return vectors(first, sentences)

        with attributes_replaced(self, _vectors=of_first):
            yield
