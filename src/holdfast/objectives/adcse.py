"""AdCSE (Li, Duan, Xie, Xiao and Jiang, DASFAA 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.learned_negatives import LearnedNegatives, NegativesStep
from holdfast.adversary.momentum import MomentumEncoder
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.objectives.contrastive import full_precision, info_nce
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import HeadKind
from holdfast.objectives.option_checks import check_words
from holdfast.objectives.own_idea import attributes_replaced

KeyHead = Literal["own", "shared"]
KeyStart = Literal["copied", "random"]
_PAPER: Mapping[str, Any] = {"negatives_step": "raw", "momentum_warm_up": False}


class AdCSE(ContrastiveObjective):
    r"""Negatives learned adversarially, and positives from a momentum encoder.

    A sentence is encoded once by the trained encoder q and once by its momentum copy p (eq. 2-4), each with its own
    head and dropout on. With M learned vectors n of unit length as negatives (eq. 5)

    .. math::
        L = -\frac{1}{N} \sum_i \log \frac{e^{\mathrm{sim}(z_i, z_i^+)/\tau}}
            {e^{\mathrm{sim}(z_i, z_i^+)/\tau} + \sum_{j \le M} e^{\mathrm{sim}(z_i, n_j)/\tau}}, \qquad
        \theta_p \leftarrow m\,\theta_p + (1-m)\,\theta_q

    θ_q descends and n ascends on the same loss of the same forward pass (eq. 6-8). With ``in_batch_negatives`` the
    other sentences' keys :math:`z_k^+` are in the denominator too.

    Args:
        negatives: M, the number of learned negatives; 0 for the ablation without adversaries.
        negatives_learning_rate: α_n, learning rate of the negatives' ascent; it is constant.
        negatives_momentum: momentum of that ascent.
        negatives_weight_decay: weight decay of that ascent.
        negatives_step: "normalised": a step turns each negative by about α_n radians, in the direction of its gradient;
            "raw": the paper's step, α_n times the gradient, which is nearly 0 where the negatives are far from the
            sentences.
        momentum: m in [0, 1], momentum of the encoder p.
        momentum_warm_up: let m rise from 0.1 in the first steps, min(m, (1 + k) / (10 + k)) in step k.
        in_batch_negatives: use the other sentences' keys as negatives as well.
        untied: the keys come from the encoder p; false for the ablation without p: they come from a second dropout pass
            of q, with gradient, as in SimCSE.
        key_head: "own" (momentum copy of the head) or "shared" (current head of q).
        key_start: "copied" (p starts as q) or "random" (p starts from random weights, initialised by the backbone).
        mask_as_token_types: give every real token the type of a second segment in training (BERT's "segment B").

    Sources of the defaults, and differences from the release: ``docs/methods/adcse.md``.

    Inputs:
        A column of sentences, (B,); an optional second column holds their positives. Returns ``{"contrastive"}``.
    """

    TITLE: ClassVar = "AdCSE"
    IDEA: ClassVar = "learned negatives climb the loss; positives come from a momentum encoder (eq. 1-8)"
    OWN_IDEA: ClassVar = "the learned negatives"
    IDEA_SHARE: ClassVar = 0.026
    CITATION: ClassVar = (
        "Li, Duan, Xie, Xiao and Jiang. AdCSE: An Adversarial Method for Contrastive Learning of Sentence Embeddings. "
        "DASFAA 2022."
    )
    PRESETS: ClassVar = {
        "paper": {**_PAPER, "in_batch_negatives": False, "duplicates": "keep"},
        "as_released": {
            **_PAPER,
            "negatives_weight_decay": 1e-4,
            "in_batch_negatives": True,
            "key_head": "shared",
            "key_start": "random",
            "mask_as_token_types": True,
            "duplicates": "keep",
        },
    }
    COST: ClassVar = 0.90

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        negatives: int = 64,
        negatives_learning_rate: float = 3e-3,
        negatives_momentum: float = 0.9,
        negatives_weight_decay: float = 0.0,
        negatives_step: NegativesStep = "normalised",
        momentum: float = 0.995,
        momentum_warm_up: bool = True,
        in_batch_negatives: bool = True,
        untied: bool = True,
        head: HeadKind = "tanh",
        key_head: KeyHead = "own",
        key_start: KeyStart = "copied",
        mask_as_token_types: bool = False,
        duplicates: Duplicates = "mask",
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_words(negatives_step=(negatives_step, NegativesStep))
        if negatives == 0 and not in_batch_negatives:
            raise ValueError("there are no negatives at all: negatives=0 needs in_batch_negatives=true")
        if not untied and (key_head, key_start) != ("own", "copied"):
            raise ValueError("untied=false has no second encoder: key_head and key_start do not apply")
        if mask_as_token_types and getattr(self.encoder.backbone.model.config, "type_vocab_size", 0) < 2:
            raise ValueError("mask_as_token_types needs a backbone with two token types, such as BERT")
        self.in_batch_negatives, self.mask_as_token_types = in_batch_negatives, mask_as_token_types
        self.negatives = LearnedNegatives(
            negatives,
            self.encoder.dimension,
            learning_rate=negatives_learning_rate,
            momentum=negatives_momentum,
            weight_decay=negatives_weight_decay,
            step=negatives_step,
        )
        self.key_head = key_head
        self.follower: MomentumEncoder | None = None
        if untied:
            self.follower = MomentumEncoder(model, self._followed_head(), momentum=momentum, warm_up=momentum_warm_up)
            if key_start == "random":
                self.follower.randomise()

    def needs_dropout(self, columns: int) -> bool:
        """Return True without a second encoder and without positives in the data."""
        return self.follower is None and columns == 1

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run one pass of q and one of p; return ``{"contrastive": scalar}``."""
        self.catch_up()
        sentences, positives = self.columns(map(self._typed, sentence_features))
        encoder, keys = self.encoder, None
        if self.follower is None and positives is None:
            passes = [encoder.encode(sentences, views=2)]
        else:
            passes = [encoder.encode(sentences)]
            others = sentences if positives is None else positives
            if self.follower is None:
                passes.append(encoder.encode(others))
            else:
                keys = self._keys(others)
        equal, negatives = self.equal_texts(sentences, positives), self.negatives()

        def terms(cut: Cut) -> dict[str, Tensor]:
            z = torch.cat([self.head(cut(h)) for h in passes])
            # Keys of p stay whole: a shortened query learns to find the key of its whole vector.
            z, z_positive = (z, keys) if keys is not None else z.chunk(2)
            return {"contrastive": self.compute_loss(z, z_positive, negatives, equal)}

        return self.at_each_dimension(terms)

    def compute_loss(self, z: Tensor, z_positive: Tensor, negatives: Tensor, equal: Tensor | None = None) -> Tensor:
        """Compute eq. 5 from projected vectors of sentences and their positives, both (B, d), and negatives (M, d).

        ``equal`` is (B, N), as returned by `equal_texts`.
        """
        self._diagnose(z.detach(), z_positive.detach(), negatives.detach())
        keys, offset = gather_keys(z_positive) if self.in_batch_negatives else (z_positive, 0)
        return info_nce(
            z,
            [keys],
            temperature=self.temperature,
            offset=offset,
            equal=equal,
            extra_negatives=negatives,
            in_batch_negatives=self.in_batch_negatives,
        )

    def follow(self) -> None:
        """Make an ascent step of the negatives (eq. 7), and update p towards q (eq. 4)."""
        self.negatives.ascend()
        self.diagnostics["negatives_gradient_norm"] = self.negatives.gradient_norm
        self.diagnostics["negatives_turned"] = self.negatives.turned
        if self.follower is not None:
            self.follower.update(self.model, self._followed_head())

    def _followed_head(self) -> nn.Module:
        return self.head if self.key_head == "own" else nn.Identity()

    def _keys(self, sentences: Features) -> Tensor:
        """Return the projected positives of p, (B, d), detached."""
        assert self.follower is not None
        keys = self.follower.keys(sentences)
        return keys if self.key_head == "own" else self.head(keys).detach()

    def _typed(self, sentences: Features) -> Features:
        if not (self.mask_as_token_types and self.training):
            return sentences
        return {**sentences, "token_type_ids": sentences["attention_mask"].long()}

    @torch.no_grad()
    def _diagnose(self, z: Tensor, z_positive: Tensor, negatives: Tensor) -> None:
        with full_precision(z):
            unit = F.normalize(z, dim=-1)
            self.diagnostics["positive_similarity"] = (unit * F.normalize(z_positive, dim=-1)).sum(dim=-1).mean()
            if len(negatives):
                self.diagnostics["negatives_similarity"] = unit.mean(dim=0) @ negatives.mean(dim=0)

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context without the learned negatives; the keys remain those of p."""
        return attributes_replaced(self.negatives, forward=lambda: self.negatives.vectors[:0])
