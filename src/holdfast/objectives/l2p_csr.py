"""L2P-CSR (Zhou, Zhou, Zhao and Wen, IEEE/ACM TASLP 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.adversary.ascent import MixedAscent, gaussian
from holdfast.adversary.balls import sentence_norm
from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.loss_rise import loss_rise
from holdfast.adversary.weakening import Weakening, WeakeningAscent, uniform_start
from holdfast.backbone import Features
from holdfast.distributed import gather_keys, mean_over_processes
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.objectives.contrastive import share_found
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import HeadKind
from holdfast.objectives.option_checks import check_words
from holdfast.objectives.own_idea import attributes_replaced

Noise = Literal["mask", "embedding"]


class L2PCSR(ContrastiveObjective):
    r"""Two views weakened by masks over tokens and features, which are learned by ascent on the loss.

    Each sentence, view and layer l (the output of the embeddings and of the first k−1 layers) has keep-probabilities
    :math:`P_{tok} \in [0,1]^L` and :math:`P_{fea} \in [0,1]^d`, drawn from U(0, 1) (eq. 4). They give masks, which
    weaken the output of the layer (eq. 1-3):

    .. math::
        \alpha = [P \ge \phi], \qquad M_{ij} = (\alpha^{tok}_i + \alpha^{fea}_j) / 2, \qquad
        \tilde E^{(l)} = E^{(l)} \times M^{(l)}

    The probabilities make t ascent steps on the InfoNCE of both perturbed views, with the gradients of their masks
    (eq. 5-8, :class:`~holdfast.adversary.weakening.WeakeningAscent`):

    .. math::
        P \leftarrow \mathrm{clip}_{[0,1]}\big(P + \beta\, g(\alpha) / \lVert g(\alpha)\rVert_2\big), \qquad
        g(\alpha) = \nabla_\alpha L_{CL}(\tilde h, \tilde h^+)

    The loss is then the InfoNCE of the two views under the last masks (eq. 9, with two misprints: the minus sign and
    the positive in the denominator are missing). Without masks it is SimCSE.

    Args:
        layers: k, number of weakened outputs, including that of the embedding layer.
        steps: t, number of ascent steps of the probabilities.
        step_size: β, length of one step of a mask's probabilities (L2 norm).
        threshold: φ, the probability below which a token or feature is weakened.
        token_mask: false for a token mask of ones (Table 3, "w/o token mask").
        feature_mask: false for a feature mask of ones (Table 3, "w/o feature mask").
        learning: false for random masks that are not learned (Table 3, "w/o learning to perturb").
        noise: "mask", or "embedding" for noise that is added to the embeddings of both views instead of the masks and
            climbs the same loss in a ball (Table 3, "Emb Noise").
        radius: ε of that noise's ball, in units of one embedding coordinate (L2 norm, per sentence); its step is β·ε.
        continuous: use the probabilities themselves as masks (Table 3, "Continual Mask").
        as_released: reproduce the masks of the authors' code; see ``PRESETS["as_released"]``.

    Sources of the defaults, choices where the paper is open, and differences from the release:
    ``docs/methods/l2p-csr.md``.

    Inputs:
        A column of sentences, (B,). Returns ``{"contrastive"}``.
    """

    TITLE: ClassVar = "L2P-CSR"
    OWN_POSITIVES: ClassVar = "their positives are perturbed views"
    IDEA: ClassVar = "masks that weaken tokens and features learn to make two views of a sentence unlike (eq. 1-11)"
    OWN_IDEA: ClassVar = "the masks"
    IDEA_SHARE: ClassVar = 0.94
    CITATION: ClassVar = (
        "Zhou, Zhou, Zhao and Wen. Learning to Perturb for Contrastive Learning of Unsupervised Sentence "
        "Representations. IEEE/ACM TASLP 2023."
    )
    PRESETS: ClassVar = {
        "paper": {
            "step_size": 0.5,
            "duplicates": "keep",
        },  # else the defaults are the paper's wherever it gives a value
        "as_released": {"step_size": 0.1, "duplicates": "keep", "as_released": True},
    }
    COST: ClassVar = 3.93
    TRAINING: ClassVar = {"learning_rate": 3e-5, "batch_size": 512, "epochs": 1.0}

    def __init__(
        self,
        model: nn.Module,
        *,
        layers: int = 3,
        steps: int = 4,
        step_size: float = 0.05,
        threshold: float = 0.05,
        temperature: float = 0.05,
        head: HeadKind = "tanh",
        token_mask: bool = True,
        feature_mask: bool = True,
        learning: bool = True,
        noise: Noise = "mask",
        radius: float = 5e-3,
        continuous: bool = False,
        duplicates: Duplicates = "mask",
        as_released: bool = False,
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        if steps < 0 or min(step_size, radius) <= 0 or not 0.0 <= threshold <= 1.0:
            raise ValueError("steps ≥ 0, step_size and radius > 0 and 0 ≤ threshold ≤ 1 are required")
        check_words(noise=(noise, Noise))
        if noise == "embedding" and (continuous or as_released or not (token_mask and feature_mask)):
            raise ValueError('noise="embedding" has no masks: leave token_mask, feature_mask and the like alone')
        depth = self.encoder.backbone.depth
        if not 1 <= layers <= depth:
            raise UserError(f"layers={layers} does not fit a model of {depth} layers: it takes 1 to {depth}")
        if as_released and self.encoder.prompt is not None:
            raise UserError("as_released has no attention mask, without which a prompt's [MASK] is not found")
        self.layers, self.as_released = layers, as_released
        self.token_mask, self.feature_mask, self.noise = token_mask, feature_mask, noise
        steps = steps if learning else 0
        self.ascent = WeakeningAscent(steps, step_size, threshold, continuous, as_released)
        self.noise_ascent = MixedAscent(steps, 0, step_size * radius, 0.0, 1.0, radius, "2")

    def needs_dropout(self, columns: int) -> bool:
        """Return True: the positives are dropout views."""
        return True

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the perturbation, and the pass of both views with it; return ``{"contrastive": scalar}``."""
        sentences, _ = self.columns(sentence_features)
        self.diagnostics = {}
        encoder, equal = self.encoder, self.equal_texts(sentences)
        if self.noise == "mask" and not (self.token_mask or self.feature_mask):
            return self._contrasted(encoder.encode(sentences, views=2), equal)
        sentences, x = self._embedded(encoder, sentences)
        learn = self._learn_masks if self.noise == "mask" else self._learn_noise
        perturbation, losses = learn(encoder, sentences, x.detach(), equal)
        with encoder.perturbed(embeddings=x, **perturbation):
            h = encoder.encode(sentences, views=2)
        found = self._contrasted(h, equal)
        if losses and not self.dimensions:
            self.diagnostics |= loss_rise(losses[0], found["contrastive"])
        return found

    def _contrasted(self, h: Tensor, equal: Tensor | None) -> dict[str, Tensor]:
        """Return the loss of the sentence vectors of both views, (2B, d)."""

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, z_positive = self.head(cut(h)).chunk(2)
            keys, offset = gather_keys(z_positive.detach())
            self.diagnostics["views_found"] = mean_over_processes(share_found(z, keys, offset, equal))
            return {"contrastive": self.compute_loss(z, z_positive, equal)}

        return self.at_each_dimension(terms)

    def compute_loss(self, z: Tensor, z_positive: Tensor, equal: Tensor | None = None) -> Tensor:
        """Return the InfoNCE of the projected vectors of both views, each (B, d), for the attack and the training.

        ``equal`` is (B, N), as returned by `equal_texts`.
        """
        return self.in_batch_loss(z, z_positive, equal)

    def masks(self, encoder: Encoder, sentences: Features) -> Weakening:
        """Return the learned masks of B sentences, for (k, 2B) rows: all first views, then all second views.

        Parameters, their gradients and the module's mode are left unchanged; there is no training step.
        """
        if self.noise != "mask" or not (self.token_mask or self.feature_mask):
            raise ValueError("this L2P-CSR has no masks")
        equal = self.equal_texts(sentences)
        with torch.no_grad():
            sentences, x = self._embedded(encoder, sentences)
        return self._climb(encoder, sentences, x, equal)[0]

    def initial_probabilities(self, x: Tensor) -> Weakening:
        """Draw P⁰ ~ U(0, 1) (eq. 4), in fp32, for embeddings x (2B, L, d) of the first views, then the second."""
        return uniform_start(
            x, self.layers, tokens=self.token_mask, features=self.feature_mask, shared=self.as_released
        )

    def initial_noise(self, x: Tensor) -> Tensor:
        """Draw δ⁰ ~ N(0, (ε/10)²I), (2B, L, d), in fp32, for ``noise="embedding"``."""
        return gaussian(x, self.noise_ascent.radius / 10)

    def _embedded(self, encoder: Encoder, sentences: Features) -> tuple[Features, Tensor]:
        """Return the features of B sentences for the encoder, and the first layer's input in both views, (2B, L, d)."""
        x = encoder.embed(sentences, views=2)
        if self.as_released:  # its perturbed passes have no attention mask
            sentences = {**sentences, "attention_mask": torch.ones_like(sentences["attention_mask"])}
        return sentences, x

    def _perturbed_loss(
        self, encoder: Encoder, sentences: Features, x: Tensor, perturbation: dict[str, Any], equal: Tensor | None
    ) -> Tensor:
        with encoder.perturbed(embeddings=x, **perturbation):
            z, z_positive = self.head(encoder.encode(sentences, views=2)).chunk(2)
        return self.compute_loss(z, z_positive, equal)

    def _learn_masks(
        self, encoder: Encoder, sentences: Features, x: Tensor, equal: Tensor | None
    ) -> tuple[dict[str, Any], list[Tensor]]:
        masks, losses = self._climb(encoder, sentences, x, equal)
        real = _real_in_both_views(encoder, sentences)
        if masks.tokens is not None:
            self.diagnostics["weakened_tokens"] = 1.0 - (masks.tokens * real).sum() / (real.sum() * len(masks.tokens))
        if masks.features is not None:
            self.diagnostics["weakened_features"] = 1.0 - masks.features.mean()
        return {"weakening": masks.pairs()}, losses

    def _climb(
        self, encoder: Encoder, sentences: Features, x: Tensor, equal: Tensor | None
    ) -> tuple[Weakening, list[Tensor]]:
        """Return the last masks, for embeddings x (2B, L, d), and the loss at each step."""
        real = _real_in_both_views(encoder, sentences)

        def loss(masks: Weakening) -> Tensor:
            return self._perturbed_loss(encoder, sentences, x, {"weakening": masks.pairs()}, equal)

        start = self.initial_probabilities(x).whole_at_padding(real)
        with encoder.attack_mode(dropout=True):
            keep, losses = self.ascent.climb(start, loss)
        return self.ascent.masks(keep), losses

    def _learn_noise(
        self, encoder: Encoder, sentences: Features, x: Tensor, equal: Tensor | None
    ) -> tuple[dict[str, Any], list[Tensor]]:
        """Return the noise δ (2B, L, d) for embeddings x (2B, L, d) as an argument, and the loss at each step."""
        real = _real_in_both_views(encoder, sentences).to(x.dtype)

        def loss(delta: Tensor) -> Tensor:
            return self._perturbed_loss(encoder, sentences, x, {"delta": delta}, equal)

        with encoder.attack_mode(dropout=True):
            delta, losses = self.noise_ascent.climb(self.initial_noise(x), real, loss)
        self.diagnostics["delta_norm"] = sentence_norm(delta, real, "2").mean()
        return {"delta": delta}, losses

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context without masks or noise, which is SimCSE."""

        def none(_: Encoder, __: Features, x: Tensor, *___: Any) -> tuple[dict[str, Any], list[Tensor]]:
            if self.noise == "mask":
                self.initial_probabilities(x)  # so that dropout is equal: the attack restores only what it draws
            return {}, []

        return attributes_replaced(self, _learn_masks=none, _learn_noise=none)


def _real_in_both_views(encoder: Encoder, sentences: Features) -> Tensor:
    """Return the mask of both views, (2B, L), true at tokens, false at padding and at a prompt."""
    real = encoder.text_mask(sentences).bool()
    return real.repeat(2, 1)
