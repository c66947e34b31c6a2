"""RobustEmbed (Rafiei Asl, Blanco and Takabi, Findings of EMNLP 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.adversary.ascent import MixedAscent, Trajectory, gaussian
from holdfast.adversary.balls import Norm, sentence_norm
from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.loss_rise import loss_rise
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.encoder import Encoder
from holdfast.objectives.contrastive import cosine_matrix, full_precision, info_nce, own_or_equal
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import HeadKind
from holdfast.objectives.option_checks import check_not_negative, check_words
from holdfast.objectives.own_idea import attributes_replaced

Negatives = Literal["views", "clean"]
Positives = Literal["both", "clean", "adversarial"]


class RobustEmbed(ContrastiveObjective):
    r"""A worst-case perturbation of the token embeddings is a second positive of each sentence.

    With X and X⁺ the embeddings of a sentence under two dropout masks, δ climbs the contrastive loss for max(K, T)
    steps inside a norm ball (eq. 3-5, :class:`~holdfast.adversary.ascent.MixedAscent`), with the encoder's dropout
    off, its parameters frozen and the keys taken from the training pass. Then (eq. 7-8)

    .. math::
        L = L_{con}(x, \{x^+, x^{adv}\}) + \gamma\, L_{con}(x^{adv}, \{x^+\}), \qquad
        L_{con}(x, P) = -\log \frac{\sum_{p \in P} e^{\mathrm{sim}(z, z_p)/\tau}}
                                   {\sum_{p \in P} \sum_j e^{\mathrm{sim}(z, z_{p,j})/\tau}}

    where j runs over the batch. With γ = 0 and without the adversarial positive it is SimCSE.

    Args:
        pgd_steps: K.
        fgsm_steps: T.
        pgd_size: α, step size of the PGD part, in units of one embedding coordinate.
        fgsm_size: β, step size of the FGSM part in each coordinate.
        radius: ε, in units of one embedding coordinate. None: T·β, the maximum distance of the FGSM part; with T = 0
            K·α, that of the PGD part.
        mix: λ in [0, 1], weight of the PGD part.
        gamma: γ, weight of the second term.
        norm: norm P of the ball, "1", "2" or "inf", per sentence over its real tokens. ε and α are in per-coordinate
            units (power-mean norms): vectors with all coordinates ±ε lie on the surface of all three balls.
        init_std: σ of δ⁰ ~ N(0, σ²I).
        trajectory: "mixed" (δ moves to the mix at each step) or "separate" (two chains, mixed at the end).
        negatives: "views": the other sentences' keys in the same views as the positives; "clean": only those of x⁺.
        positives: positives of the first term: "both" (x⁺ and x_adv), "clean" (only x⁺) or "adversarial" (only x_adv).
        attack_dropout: leave the encoder's dropout on in the attack's passes.
        as_released: reproduce the pairing and embedding of the authors' code; see ``PRESETS["as_released"]``.

    Sources of the defaults, and differences from the release: ``docs/methods/robustembed.md``.

    Inputs:
        A column of sentences, (B,). Returns ``{"robust", "adversarial"}``, the two terms of eq. 8.
    """

    TITLE: ClassVar = "RobustEmbed"
    OWN_POSITIVES: ClassVar = "their positives are dropout views"
    IDEA: ClassVar = "a worst-case perturbation of the token embeddings becomes a second positive (eq. 3-5, 7-8)"
    OWN_IDEA: ClassVar = "the adversarial positive"
    IDEA_SHARE: ClassVar = 1.3
    CITATION: ClassVar = (
        "Rafiei Asl, Blanco and Takabi. RobustEmbed: Robust Sentence Embeddings Using Self-Supervised Contrastive "
        "Pre-Training. Findings of EMNLP 2023."
    )
    PRESETS: ClassVar = {
        "paper": {"duplicates": "keep"},  # else the defaults are the paper's wherever it gives a value
        "as_released": {
            "pgd_steps": 4,
            "fgsm_steps": 4,
            "pgd_size": 1e-6,
            "fgsm_size": 9.7e-4,
            "radius": 1e-6,
            "init_std": 1e-5,
            "positives": "clean",
            "duplicates": "keep",
            "as_released": True,
        },
        # Miao et al. 2021, Rima et al. 2022: one gradient step, L2 or sign, whose result is the positive.
        "uscal": {
            "pgd_steps": 1,
            "fgsm_steps": 0,
            "mix": 1.0,
            "norm": "2",
            "pgd_size": 5e-3,
            "radius": 5e-3,
            "init_std": 0.0,
            "positives": "adversarial",
            "gamma": 0.0,
            "duplicates": "keep",
        },
        "atcl": {
            "pgd_steps": 0,
            "fgsm_steps": 1,
            "mix": 0.0,
            "norm": "inf",
            "fgsm_size": 5e-3,
            "radius": 5e-3,
            "init_std": 0.0,
            "positives": "adversarial",
            "gamma": 0.0,
            "duplicates": "keep",
        },
    }
    COST: ClassVar = 3.29
    TRAINING: ClassVar = {"learning_rate": 3e-5, "batch_size": 64, "epochs": 2.0}

    def __init__(
        self,
        model: nn.Module,
        *,
        pgd_steps: int = 5,
        fgsm_steps: int = 5,
        pgd_size: float = 1e-5,
        fgsm_size: float = 1e-3,
        radius: float | None = None,
        mix: float = 0.5,
        gamma: float = 1 / 128,
        norm: Norm = "inf",
        init_std: float | None = None,
        temperature: float = 0.05,
        head: HeadKind = "tanh",
        trajectory: Trajectory = "mixed",
        negatives: Negatives = "views",
        positives: Positives = "both",
        attack_dropout: bool = False,
        duplicates: Duplicates = "mask",
        as_released: bool = False,
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_words(norm=(norm, Norm), trajectory=(trajectory, Trajectory))
        check_words(negatives=(negatives, Negatives), positives=(positives, Positives))
        check_not_negative(pgd_steps=pgd_steps, fgsm_steps=fgsm_steps, pgd_size=pgd_size, fgsm_size=fgsm_size)
        check_not_negative(radius=radius, gamma=gamma, init_std=init_std)
        self.ascent = MixedAscent.reaching(pgd_steps, fgsm_steps, pgd_size, fgsm_size, mix, radius, norm, trajectory)
        self.init_std = self.ascent.radius / 10 if init_std is None else init_std
        self.gamma, self.negatives, self.positives = gamma, negatives, positives
        self.attack_dropout, self.as_released = attack_dropout, as_released

    def needs_dropout(self, columns: int) -> bool:
        """Return True: the positives are dropout views."""
        return True

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run training pass, attack and the pass of x_adv; return ``{"robust", "adversarial"}``, both scalars."""
        sentences, _ = self.columns(sentence_features)
        self.diagnostics = {}
        encoder, equal = self.encoder, self.equal_texts(sentences)
        with encoder.recording() as recording:
            h = encoder.encode(sentences, views=2)
        x = recording.embeddings[: len(h) // 2]
        with torch.no_grad():
            _, z_positive = self.head(h).chunk(2)
        delta = self.attack(encoder, sentences, x.detach(), z_positive, equal)
        h_adversarial = self._encode_perturbed(encoder, sentences, x, delta)

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, z_positive = self.head(cut(h)).chunk(2)
            return self.compute_loss(z, z_positive, self.head(cut(h_adversarial)), equal)

        return self.at_each_dimension(terms)

    def compute_loss(
        self, z: Tensor, z_positive: Tensor, z_adversarial: Tensor, equal: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Compute the two terms of eq. 8 from projected vectors of x, x⁺ and x_adv, all (B, d)."""
        clean, offset = gather_keys(z_positive)
        perturbed, _ = gather_keys(z_adversarial)
        robust = {"both": [clean, perturbed], "clean": [clean], "adversarial": [perturbed]}[self.positives]
        return {
            "robust": self._contrast(z, robust, offset, equal),
            "adversarial": self.gamma * self._adversarial_term(z_adversarial, z_positive, equal),
        }

    def attack(
        self, encoder: Encoder, sentences: Features, x: Tensor, z_positive: Tensor, equal: Tensor | None = None
    ) -> Tensor:
        """Compute the perturbation δ (B, L, d) of embeddings x (B, L, d) against detached keys z_positive (B, d).

        Parameters, their gradients, the module's mode and the random state are left unchanged.
        """
        mask: Tensor = encoder.text_mask(sentences)[:, : x.shape[1]].to(x.dtype)

        def loss(delta: Tensor) -> Tensor:
            z_adversarial = self.head(self._encode_perturbed(encoder, sentences, x, delta))
            return self._adversarial_term(z_adversarial, z_positive, equal)

        projected: list[Tensor] = []
        with encoder.attack_mode(dropout=self.attack_dropout):
            delta, losses = self.ascent.climb(self.initial_noise(x), mask, loss, projected=projected)
        if projected:
            self.diagnostics["projected"] = torch.stack(projected).mean()
        self.diagnostics["delta_norm"] = sentence_norm(delta, mask, self.ascent.norm).mean()
        if len(losses) > 1:  # the loss at the last δ is not computed: the rise is up to the step before
            self.diagnostics |= loss_rise(losses[0], losses[-1])
        return delta

    def initial_noise(self, x: Tensor) -> Tensor:
        """Draw δ⁰ ~ N(0, σ²I), (B, L, d), in fp32."""
        return gaussian(x, self.init_std)

    def _encode_perturbed(self, encoder: Encoder, sentences: Features, x: Tensor, delta: Tensor) -> Tensor:
        if self.as_released:
            return _encode_twice_embedded(encoder, sentences, x + delta)
        with encoder.perturbed(embeddings=x, delta=delta):
            return encoder.encode(sentences)

    def _adversarial_term(self, z_adversarial: Tensor, z_positive: Tensor, equal: Tensor | None) -> Tensor:
        """Return ``L_con(x_adv, {x⁺})``, the loss of the attack and the second term of eq. 8."""
        if self.as_released:
            queries, keys = _released_pairs(z_positive, z_adversarial)
            return info_nce(queries, [keys], temperature=self.temperature, equal=_of_released_pairs(equal))
        return self.in_batch_loss(z_adversarial, z_positive, equal)

    def _contrast(self, queries: Tensor, positives: list[Tensor], offset: int, equal: Tensor | None) -> Tensor:
        if self.negatives == "views" or len(positives) == 1:
            return info_nce(queries, positives, temperature=self.temperature, offset=offset, equal=equal)
        return _clean_negatives(queries, positives, self.temperature, offset, equal)

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context without x_adv: with δ = 0, γ = 0 and only x⁺ as a positive, which is SimCSE."""

        def none(_: Encoder, __: Features, x: Tensor, *___: Any) -> Tensor:
            return torch.zeros_like(x)

        return attributes_replaced(self, positives="clean", gamma=0.0, attack=none)


def _clean_negatives(
    queries: Tensor, positives: list[Tensor], temperature: float, offset: int, equal: Tensor | None
) -> Tensor:
    """Return :func:`info_nce` with the negatives of the first view only: {z_j⁺, j ≠ i} (B−1 of them, not 2B−2)."""
    rows = torch.arange(len(queries), device=queries.device)
    with full_precision(queries):
        similarities = torch.stack([cosine_matrix(queries, keys) for keys in positives], dim=1) / temperature
        matching = similarities[rows, :, rows + offset]  # (B, views)
        others = similarities[:, 0].masked_fill(own_or_equal(similarities[:, 0], equal, rows + offset), float("-inf"))
        return (torch.cat([matching, others], dim=1).logsumexp(dim=1) - matching.logsumexp(dim=1)).mean()


def _encode_twice_embedded(encoder: Encoder, sentences: Features, embeddings: Tensor) -> Tensor:
    """Encode embeddings as if they were word embeddings: positions, LayerNorm and dropout are applied twice."""
    rows = len(embeddings)
    # The release's batch is (target rows, perturbed rows) while the masks are interleaved.
    borrowed = (rows + torch.arange(rows, device=embeddings.device)) // 2
    features: dict[str, Any] = {key: value for key, value in sentences.items() if key != "input_ids"}
    features["inputs_embeds"] = embeddings
    features["attention_mask"] = sentences["attention_mask"][borrowed]
    vectors: Tensor = encoder.encode(features)
    return vectors


def _of_released_pairs(equal: Tensor | None) -> Tensor | None:
    """Rearrange the mask of B sentences, (B, B), for the queries and keys of `_released_pairs`."""
    return None if equal is None else equal.repeat(2, 2)[0::2, 1::2]


def _released_pairs(z_positive: Tensor, z_adversarial: Tensor) -> tuple[Tensor, Tensor]:
    """Pair rows as in the release: (2B, d) is read as (B, 2, d), so that rows 2i and 2i+1 are pairs."""
    rows = torch.cat([z_positive, z_adversarial])
    return rows[0::2], rows[1::2]
