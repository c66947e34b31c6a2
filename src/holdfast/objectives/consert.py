"""ConSERT, unsupervised (Yan, Li, Wang, Zhang, Wu and Xu, ACL 2021)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.ascent import perturbation_gradient
from holdfast.adversary.balls import unit_direction
from holdfast.adversary.embedding_augmentation import (
    element_dropout,
    feature_cutoff,
    joined_rows,
    shuffled_order,
    token_cutoff,
)
from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.loss_rise import loss_rise
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import evaluating
from holdfast.objectives.contrastive import cosine_matrix, full_precision, without_equal
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import HeadKind
from holdfast.objectives.option_checks import check_positive, check_words
from holdfast.objectives.own_idea import attributes_replaced

View = Literal["none", "shuffle", "token-cutoff", "feature-cutoff", "dropout", "adversarial"]
AttackNorm = Literal["2", "inf"]


class ConSERT(ContrastiveObjective):
    r"""Two augmentations of a sentence's embeddings are positives; all other vectors of the batch are negatives.

    Each of the 2B vectors is an anchor, and is compared with the 2B−1 others (NT-Xent, eq. 1):

    .. math::
        \ell_{i,j} = -\log \frac{e^{\mathrm{sim}(z_i, z_j)/\tau}}{\sum_{k \ne i} e^{\mathrm{sim}(z_i, z_k)/\tau}}

    where j is the other view of the same sentence; the loss is the mean over the 2B anchors. With several processes the
    vectors of all of them are joined, with gradient. The views (§3.2) are made where the embeddings enter the first
    layer; there is no other difference, since the encoder's own dropout is off.

    - "none": unchanged.
    - "shuffle": the tokens are shuffled; position embeddings stay. Special tokens such as [CLS] and [SEP] do not move.
    - "token-cutoff": ⌊rate·n⌋ of a sentence's n tokens become zero, possibly special tokens.
    - "feature-cutoff": ⌊rate·d⌋ features become zero, the same ones for all tokens of a sentence.
    - "dropout": each element becomes zero independently; the others are not rescaled.
    - "adversarial": one gradient step that raises the loss against the other view, whose vectors are fixed.

    Args:
        first_view: "none", "shuffle", "token-cutoff", "feature-cutoff", "dropout" or "adversarial".
        second_view: the same choices; at most one view is adversarial.
        token_cutoff: share of the tokens that token cutoff sets to zero.
        feature_cutoff: share of the features that feature cutoff sets to zero.
        dropout: probability with which the dropout view sets an element to zero.
        radius: ε, length of the adversarial step, in units of one embedding coordinate.
        attack_norm: "2" for ε·g/‖g‖ per sentence (the paper's fast gradient value), "inf" for ε·sign g.
        encoder_dropout: leave the encoder's dropout on.

    Sources of the defaults, and differences from the release: ``docs/methods/consert.md``.

    Inputs:
        A column of sentences, (B,). Returns ``{"contrastive"}``.
    """

    TITLE: ClassVar = "ConSERT"
    OWN_POSITIVES: ClassVar = "their positives are augmented views"
    IDEA: ClassVar = "two cheap augmentations of a sentence's embeddings are pulled together (NT-Xent, eq. 1)"
    OWN_IDEA: ClassVar = "the augmentations"
    IDEA_SHARE: ClassVar = 0.86
    CITATION: ClassVar = (
        "Yan et al. ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer. ACL 2021."
    )
    PRESETS: ClassVar = {"paper": {"temperature": 0.1, "duplicates": "keep"}}  # printed with a learning rate of 5e-7
    COST: ClassVar = 0.94
    DROPOUT_OPTION: ClassVar = "encoder_dropout"
    TRAINING: ClassVar = {"learning_rate": 2e-5, "batch_size": 96, "epochs": 1.0}

    def __init__(
        self,
        model: nn.Module,
        *,
        first_view: View = "feature-cutoff",
        second_view: View = "shuffle",
        token_cutoff: float = 0.15,
        feature_cutoff: float = 0.2,
        dropout: float = 0.2,
        radius: float = 0.03,
        attack_norm: AttackNorm = "2",
        encoder_dropout: bool = False,
        temperature: float = 0.05,
        head: HeadKind = "none",
        duplicates: Duplicates = "mask",
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_words(
            first_view=(first_view, View), second_view=(second_view, View), attack_norm=(attack_norm, AttackNorm)
        )
        if first_view == second_view == "adversarial":
            raise ValueError("at most one view is adversarial: it is attacked against the other")
        if not all(0.0 <= rate < 1.0 for rate in (token_cutoff, feature_cutoff, dropout)):
            raise ValueError("token_cutoff, feature_cutoff and dropout must lie in [0, 1)")
        check_positive(radius=radius)
        if self.encoder.prompt is not None:
            raise UserError("ConSERT's views would break the template of a prompt: choose another --pooling")
        self.views: tuple[View, View] = (first_view, second_view)
        self.token_cutoff, self.feature_cutoff, self.dropout = token_cutoff, feature_cutoff, dropout
        self.radius, self.attack_norm, self.encoder_dropout = radius, attack_norm, encoder_dropout
        tokenizer = self.encoder.model.tokenizer
        framing = sorted({*tokenizer.all_special_ids} - {tokenizer.unk_token_id})  # such as [CLS] and [SEP]
        # Moved with the module, but not saved: it follows from the tokeniser.
        self.framing_tokens: Tensor
        self.register_buffer("framing_tokens", torch.tensor(framing), persistent=False)

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run the pass of both views; return ``{"contrastive": scalar}``."""
        sentences, _ = self.columns(sentence_features)
        self.diagnostics = {}
        encoder, equal = self.encoder, self.equal_texts(sentences)
        with contextlib.nullcontext() if self.encoder_dropout else evaluating(encoder.model):
            if "adversarial" in self.views:
                return self._with_adversarial_view(encoder, sentences, equal)
            first, second = (self._augmented(encoder, sentences, view) for view in (0, 1))
            keep = _joined_masks(first[1], second[1])
            h = self._encode(encoder, joined_rows(first[0], second[0]), keep)
        return self._contrasted([h], equal)

    def compute_loss(self, z: Tensor, z_positive: Tensor, equal: Tensor | None = None) -> Tensor:
        """Return NT-Xent of projected vectors of both views, each (B, d) (eq. 1); ``equal`` is from `equal_texts`."""
        vectors = torch.cat([z, z_positive])
        keys, offset = gather_keys(vectors)
        rows = torch.arange(len(vectors), device=vectors.device)
        with full_precision(vectors):
            logits = cosine_matrix(vectors, keys) / self.temperature  # (2B, 2B) or more
            logits = logits.scatter(1, (rows + offset)[:, None], float("-inf"))  # without itself
            partners = rows.roll(len(z)) + offset
            return F.cross_entropy(without_equal(logits, _of_both_views(equal, len(z)), partners), partners)

    def draw(self, view: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Draw random numbers U(0, 1) of the given shape, for the first (0) or second (1) view."""
        return torch.rand(shape, device=device)

    def _augmented(self, encoder: Encoder, sentences: Features, view: int) -> tuple[Features, Tensor | None]:
        """Return a view's features, and the mask of the values to keep at the first layer; None: all."""
        real = encoder.text_mask(sentences).bool()
        rows, length = real.shape
        backbone: Any = encoder.backbone.model
        width, device, kind = backbone.config.hidden_size, real.device, self.views[view]
        if kind == "shuffle":
            movable = real & ~torch.isin(sentences["input_ids"], self.framing_tokens.to(device))
            order = shuffled_order(self.draw(view, (rows, length), device), movable)
            return {**sentences, "input_ids": sentences["input_ids"].gather(1, order)}, None
        if kind == "token-cutoff":
            return sentences, token_cutoff(self.draw(view, (rows, length), device), real, self.token_cutoff)
        if kind == "feature-cutoff":
            return sentences, feature_cutoff(self.draw(view, (rows, width), device), self.feature_cutoff)
        if kind == "dropout":
            return sentences, element_dropout(self.draw(view, (rows, length, width), device), self.dropout)
        return sentences, None

    def _encode(self, encoder: Encoder, features: Features, keep: Tensor | None) -> Tensor:
        with encoder.perturbed(weakening=None if keep is None else [keep]):
            return encoder.encode(features)

    def _contrasted(self, passes: Sequence[Tensor], equal: Tensor | None) -> dict[str, Tensor]:
        """Return the loss of the sentence vectors of both views, (2B, d) in one or two passes."""

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, z_positive = torch.cat([self.head(cut(h)) for h in passes]).chunk(2)
            return {"contrastive": self.compute_loss(z, z_positive, equal)}

        return self.at_each_dimension(terms)

    def _with_adversarial_view(self, encoder: Encoder, sentences: Features, equal: Tensor | None) -> dict[str, Tensor]:
        h_other = self._encode(encoder, *self._augmented(encoder, sentences, 1 - self.views.index("adversarial")))
        x = encoder.embed(sentences)
        with torch.no_grad():
            z_other = self.head(h_other)
        delta, unperturbed = self.attack(encoder, sentences, x.detach(), z_other, equal)
        with encoder.perturbed(embeddings=x, delta=delta):
            h_adversarial = encoder.encode(sentences)
        found = self._contrasted([h_adversarial, h_other], equal)  # symmetric in both views
        if not self.dimensions:
            self.diagnostics |= loss_rise(unperturbed, found["contrastive"])
        return found

    def attack(
        self, encoder: Encoder, sentences: Features, x: Tensor, z_other: Tensor, equal: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the step δ (B, L, d) from embeddings x (B, L, d) against fixed z_other (B, d), and the loss at δ = 0.

        Parameters, their gradients, the module's mode and the random state are left unchanged.
        """
        mask: Tensor = encoder.text_mask(sentences).to(x.dtype)

        def loss(delta: Tensor) -> Tensor:
            with encoder.perturbed(embeddings=x, delta=delta):
                return self.compute_loss(self.head(encoder.encode(sentences)), z_other, equal)

        start = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
        with encoder.attack_mode():
            slope, value = perturbation_gradient(loss, start)
        if self.attack_norm == "2":
            return self.radius * unit_direction(slope, mask, "2"), value
        return self.radius * slope.sign() * mask.unsqueeze(-1), value

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which both views are the sentence itself. Their random numbers are drawn as ever."""
        augmented = self._augmented

        def none(encoder: Encoder, sentences: Features, view: int) -> tuple[Features, None]:
            augmented(encoder, sentences, view)
            return sentences, None

        def unattacked(_: Encoder, __: Features, x: Tensor, *___: Any) -> tuple[Tensor, Tensor]:
            return torch.zeros_like(x), x.new_zeros(())

        return attributes_replaced(self, _augmented=none, attack=unattacked)


def _of_both_views(equal: Tensor | None, rows: int) -> Tensor | None:
    """Expand the mask of B sentences and N keys, (B, N), to the vectors of both views, (2B, 2N)."""
    if equal is None:
        return None
    by_process = equal.view(len(equal), -1, rows)  # (B, processes, B); the keys of a process are view after view
    return by_process.repeat_interleave(2, dim=1).flatten(1).repeat(2, 1)


def _joined_masks(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Concatenate the masks of both views, broadcast to their smallest common shape; None if both are None."""
    given = next((keep for keep in (first, second) if keep is not None), None)
    if given is None:
        return None
    everything = given.new_ones(len(given), 1, 1)
    pair = [everything if keep is None else keep for keep in (first, second)]
    length, width = (max(keep.shape[axis] for keep in pair) for axis in (1, 2))
    return torch.cat([keep.expand(-1, length, width) for keep in pair])
