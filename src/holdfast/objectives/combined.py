"""Any combination of the parts of the papers' methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.adversary.ascent import MixedAscent, gaussian
from holdfast.adversary.divergence import divergence_between
from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.key_queue import KeyQueue
from holdfast.adversary.learned_negatives import LearnedNegatives, NegativesStep
from holdfast.adversary.loss_rise import loss_rise
from holdfast.adversary.momentum import MomentumEncoder
from holdfast.adversary.paired_noise import PairedNoise
from holdfast.adversary.virtual_adversary import VirtualAdversary
from holdfast.adversary.weakening import Weakening, WeakeningAscent, uniform_start
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.encoder import Encoder, Weakener
from holdfast.errors import UserError
from holdfast.objectives.combined_parts import NegativeMasks, Projected
from holdfast.objectives.contrastive import full_precision, info_nce
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import AnyHeadKind, Statistics
from holdfast.objectives.option_checks import check_words
from holdfast.objectives.own_idea import attributes_replaced

Keys = Literal["encoder", "momentum"]
NEGATIVES = ("batch", "queue", "adversaries")


class Combined(ContrastiveObjective):
    r"""A combination of the parts of several methods; without any part it is SimCSE.

    .. math::
        L = -\frac1B \sum_i \log \frac{e^{\mathrm{sim}(z_i, z_i^+)/\tau} + e^{\mathrm{sim}(z_i, z_i^{adv})/\tau}}
            {\sum_j e^{\mathrm{sim}(z_i, z_j^+)/\tau} + \sum_j e^{\mathrm{sim}(z_i, z_j^{adv})/\tau}
             + \sum_{n \in N} e^{\mathrm{sim}(z_i, n)/\tau}}
            + \gamma\, L_{con}(x^{adv}, \{x^+\}) + \lambda\, F\big(p(x; \hat\theta), p(x + r; \theta)\big)

    Each part uses the code of its method. The keys z⁺ come from a second dropout pass or from a momentum encoder
    (AdCSE, ADCL); N holds the momentum encoder's last keys (ADCL's queue), learned negatives (AdCSE), or both; x_adv is
    a worst-case perturbation of the token embeddings (RobustEmbed); the views can be weakened by learned masks
    (L2P-CSR); r is a worst-case perturbation of the sentence vector (V-advCSE).

    Args:
        keys: "encoder": keys from a second dropout pass, with gradient; "momentum": keys from a momentum encoder.
        momentum: m in [0, 1], momentum of that encoder.
        momentum_warm_up: let m rise from 0.1 in the first steps.
        negatives: one or more, joined by "+": "batch" (the other sentences' keys), "queue" (the momentum encoder's
            earlier keys) and "adversaries" (learned negatives).
        queue_size: Q, number of keys in the queue.
        adversaries: M, the number of learned negatives.
        adversaries_learning_rate: α_n, learning rate of their ascent.
        adversaries_step: "normalised", by the direction of the gradient alone, or "raw".
        adversarial_positive: use x_adv as a second positive.
        ascent_steps: K = T, steps of its attack, of size 1e-3 (FGSM) and 1e-5 (PGD), mixed in equal shares.
        gamma: γ, weight of x_adv's own contrastive term.
        weakening: weaken the views by learned masks; with momentum keys, only the query's view.
        weakening_layers: k, number of weakened outputs: of the embeddings and of the first k−1 layers.
        weakening_steps: t, ascent steps of the probabilities of the masks.
        regularisation: λ, weight of F, the Jensen-Shannon divergence; 0: no virtual adversary.
        head: "tanh", "bn" or "none".
        duplicates: "mask": equal texts in batch and queue are not used as negatives of each other; "keep": they are,
            as in the papers.

    Defaults: those of the methods of the parts.

    Inputs:
        A column of sentences, (B,). Returns ``{"contrastive"}`` and, with their parts, ``{"adversarial"}`` and
        ``{"regulariser"}``.
    """

    TITLE: ClassVar = "Combined"
    HEADS: ClassVar = AnyHeadKind
    OWN_POSITIVES: ClassVar = "their positives are views"
    IDEA: ClassVar = (
        "momentum keys, queue, learned negatives, adversarial positives, weakening and VAT in any combination"
    )
    OWN_IDEA: ClassVar = "its parts but the momentum keys"
    IDEA_SHARE: ClassVar = 0.0
    CITATION: ClassVar = (
        "The parts are those of RobustEmbed, V-advCSE, ADCL, AdCSE and L2P-CSR; their sum is holdfast's."
    )
    COST: ClassVar = 1.06

    def __init__(
        self,
        model: nn.Module,
        *,
        keys: Keys = "encoder",
        momentum: float = 0.995,
        momentum_warm_up: bool = True,
        negatives: str = "batch",
        queue_size: int = 4096,
        adversaries: int = 64,
        adversaries_learning_rate: float = 3e-3,
        adversaries_step: NegativesStep = "normalised",
        adversarial_positive: bool = False,
        ascent_steps: int = 5,
        gamma: float = 1 / 128,
        weakening: bool = False,
        weakening_layers: int = 3,
        weakening_steps: int = 4,
        regularisation: float = 0.0,
        temperature: float = 0.05,
        head: AnyHeadKind = "tanh",
        duplicates: Duplicates = "mask",
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_words(keys=(keys, Keys), adversaries_step=(adversaries_step, NegativesStep))
        named = _negatives(negatives)
        if "queue" in named and keys != "momentum":
            raise ValueError('a queue holds keys that change slowly: negatives="queue" needs keys="momentum"')
        if weakening:
            _check_weakening(weakening_layers, self.encoder.backbone.depth, head)
        if min(regularisation, gamma) < 0 or min(ascent_steps, weakening_steps) <= 0:
            raise ValueError("regularisation and gamma ≥ 0, ascent_steps and weakening_steps > 0 are required")
        self.gamma, self.regularisation = gamma, regularisation
        self.in_batch_negatives = "batch" in named
        self.follower: MomentumEncoder | None = None
        if keys == "momentum":
            self.follower = MomentumEncoder(model, self.head, momentum=momentum, warm_up=momentum_warm_up)
        self.queue = KeyQueue(queue_size, self.encoder.dimension) if "queue" in named else None
        self.negatives: LearnedNegatives | None = None
        if "adversaries" in named:
            self.negatives = LearnedNegatives(
                adversaries,
                self.encoder.dimension,
                learning_rate=adversaries_learning_rate,
                momentum=0.9,
                step=adversaries_step,
            )
        radius = 1e-3 * ascent_steps
        self.ascent = (
            MixedAscent(ascent_steps, ascent_steps, 1e-5, 1e-3, 0.5, radius, "inf") if adversarial_positive else None
        )
        self.weakening = WeakeningAscent(weakening_steps, 0.05, 0.05) if weakening else None
        self.weakening_layers = weakening_layers
        self.virtual = VirtualAdversary()
        self.noise = PairedNoise() if regularisation else None
        self._pending: list[tuple[Tensor, Tensor]] = []

    def needs_dropout(self, columns: int) -> bool:
        """Return True without a second encoder."""
        return self.follower is None

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Compute keys, masks, training pass and attacks; return a scalar for each term."""
        self.catch_up()
        sentences, _ = self.columns(sentence_features)
        self.diagnostics = {}
        encoder = self.encoder
        masked, texts = self._negative_masks(sentences)
        keys = None if self.follower is None else self.follower.keys(sentences)
        views = 2 if keys is None else 1
        x = encoder.embed(sentences, views=views)
        masks = self._weakened(encoder, sentences, x.detach(), keys, masked)
        with encoder.perturbed(embeddings=x, weakening=masks):
            h = encoder.encode(sentences, views=views)
        if keys is not None and self.is_training_pass and texts is not None:
            self._pending.append((keys, texts))
        h_adversarial = self._adversarial_vectors(encoder, sentences, x, h, keys, masked)

        def terms(cut: Cut) -> dict[str, Tensor]:
            projected = self._projected(cut(h), keys)
            found = self._contrastive(projected, None if h_adversarial is None else cut(h_adversarial), masked)
            if self.regularisation:
                found["regulariser"] = self._regulariser(
                    encoder, cut(h)[: len(projected.z)], projected.z.detach(), projected.statistics
                )
            return found

        return self.at_each_dimension(terms)

    def _projected(self, h: Tensor, keys: Tensor | None) -> Projected:
        """Project sentence vectors h (views·B, d); without momentum keys those of the second view are the keys."""
        z, (statistics, *_) = self.head.with_statistics(h, views=1 if keys is not None else 2)
        if keys is None:
            z, keys = z.chunk(2)
        return Projected(z, keys, statistics)

    def follow(self) -> None:
        """Make an ascent step of the negatives, update the momentum encoder, and enqueue the last keys."""
        if self.negatives is not None:
            self.negatives.ascend()
        if self.follower is not None:
            self.follower.update(self.model, self.head)
        if self.queue is not None:
            for keys, texts in self._pending:
                self.queue.push(keys, texts)
        self._pending.clear()

    def contrast(self, z: Tensor, positives: list[Tensor], masked: NegativeMasks) -> Tensor:
        """Return the InfoNCE loss of z with positives in one or more views, all (B, d), and all negatives."""
        joined = [gather_keys(keys) for keys in positives]
        extra, queue_mask = self._extra_negatives(masked.queue)
        return info_nce(
            z,
            [keys for keys, _ in joined],
            temperature=self.temperature,
            offset=joined[0][1],
            equal=masked.equal,
            extra_negatives=extra,
            extra_mask=queue_mask,
            in_batch_negatives=self.in_batch_negatives,
        )

    def initial_noise(self, x: Tensor) -> Tensor:
        """Draw δ⁰ ~ N(0, (ε/10)²I) of the adversarial positive, (B, L, d), in fp32."""
        assert self.ascent is not None
        return gaussian(x, self.ascent.radius / 10)

    def initial_probabilities(self, x: Tensor) -> Weakening:
        """Draw P⁰ ~ U(0, 1) of the weakening, for embeddings x (rows, L, d)."""
        return uniform_start(x, self.weakening_layers)

    def initial_perturbation(self, h: Tensor, mask: Tensor) -> Tensor:
        """Draw r⁰ of the virtual adversary, for sentence vectors h (B, 1, d), from a generator of its own."""
        assert self.noise is not None
        return self.virtual.noise(h, mask, self.noise.generator(move=self.is_training_pass))

    def _negative_masks(self, sentences: Features) -> tuple[NegativeMasks, Tensor | None]:
        """Return the masks of the negatives and, with a queue, the hashes of the texts to push into it."""
        equal = self.equal_texts(sentences)
        if self.queue is None:
            return NegativeMasks(equal, None), None
        queue_mask, texts = self.equal_in_queue(self.queue, sentences)
        return NegativeMasks(equal, queue_mask), texts

    def _extra_negatives(self, queued: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return learned negatives and queued keys, (M, d), and with a queue the mask of those to use, (B, M)."""
        learned = None if self.negatives is None else self.negatives()
        if self.queue is None or queued is None:
            return learned, None
        if learned is None:
            return self.queue.vectors(), queued
        always = queued.new_ones(len(queued), len(learned))
        return torch.cat([learned, self.queue.vectors()]), torch.cat([always, queued], dim=1)

    def _weakened(
        self, encoder: Encoder, sentences: Features, x: Tensor, keys: Tensor | None, masked: NegativeMasks
    ) -> Sequence[Weakener] | None:
        """Learn L2P-CSR's masks for embeddings x (rows, L, d) of one view with given keys, or of both views."""
        if self.weakening is None:
            return None
        views = len(x) // len(sentences["attention_mask"])
        real = encoder.text_mask(sentences).bool().repeat(views, 1)

        def loss(masks: Weakening) -> Tensor:
            with encoder.perturbed(embeddings=x, weakening=masks.pairs()):
                z = self.head(encoder.encode(sentences, views=views))
            queries, positives = (z, keys) if keys is not None else z.chunk(2)
            return self.contrast(queries, [positives], masked)

        start = self.initial_probabilities(x).whole_at_padding(real)
        with encoder.attack_mode(dropout=True):
            keep, losses = self.weakening.climb(start, loss)
        self.diagnostics["weakening_loss_rise"] = losses[-1] - losses[0]
        return self.weakening.masks(keep).pairs()

    def _adversarial_vectors(
        self, encoder: Encoder, sentences: Features, x: Tensor, h: Tensor, keys: Tensor | None, masked: NegativeMasks
    ) -> Tensor | None:
        """Return the sentence vectors (B, d) of RobustEmbed's second positive x + δ; None: it is off.

        ``x`` are the embeddings and ``h`` the sentence vectors, both of all views.
        """
        if self.ascent is None:
            return None
        with torch.no_grad(), self.head.unmoved():
            projected = self._projected(h, keys)
        x = x[: len(projected.z)]
        mask = encoder.text_mask(sentences).to(x.dtype)

        def perturbed(embeddings: Tensor, delta: Tensor) -> Tensor:
            with encoder.perturbed(embeddings=embeddings, delta=delta):
                return encoder.encode(sentences)

        def loss(delta: Tensor) -> Tensor:
            z = self.head(perturbed(x.detach(), delta), statistics=projected.statistics)
            return self.contrast(z, [projected.keys.detach()], masked)

        with encoder.attack_mode():
            delta, losses = self.ascent.climb(self.initial_noise(x), mask, loss)
        self.diagnostics |= loss_rise(losses[0], losses[-1])
        return perturbed(x, delta)

    def _contrastive(
        self, projected: Projected, h_adversarial: Tensor | None, masked: NegativeMasks
    ) -> dict[str, Tensor]:
        """Return the contrastive terms, with RobustEmbed's second positive if there is one."""
        z, keys, statistics = projected
        if h_adversarial is None:
            return {"contrastive": self.contrast(z, [keys], masked)}
        z_adversarial = self.head(h_adversarial, statistics=statistics)
        return {
            "contrastive": self.contrast(z, [keys, z_adversarial], masked),
            "adversarial": self.gamma * self.contrast(z_adversarial, [keys], masked),
        }

    def _regulariser(self, encoder: Encoder, h: Tensor, z: Tensor, statistics: Statistics) -> Tensor:
        """Return V-advCSE's λF for sentence vectors h (B, d) and their detached projections z."""
        x, mask = h[:, None], torch.ones(len(h), 1, device=h.device, dtype=z.dtype)

        def distance(vectors: Tensor) -> Tensor:
            z_perturbed = self.head(vectors.squeeze(1), statistics=statistics)
            return divergence_between(z, z_perturbed, "js").mean()

        start = self.initial_perturbation(x.detach(), mask)
        with encoder.attack_mode(), full_precision(h):
            r, _ = self.virtual.climb(start, mask, lambda at: distance(x.detach() + at))
        with full_precision(h):
            return self.regularisation * distance(x + r)

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context without queue, learned negatives, x_adv, masks and λF; the keys remain the same."""

        def unweakened(_: Encoder, __: Features, x: Tensor, *___: Any) -> None:
            if self.weakening is not None:
                self.initial_probabilities(x)  # so that dropout is equal

        parts: Any = {"_weakened": unweakened, "_adversarial_vectors": lambda *_: None, "regularisation": 0.0}
        return attributes_replaced(self, **parts, _extra_negatives=lambda _: (None, None))


def _check_weakening(layers: int, depth: int, head: AnyHeadKind) -> None:
    if head == "bn":
        raise ValueError('weakening learns its masks before there are batch statistics: head="bn" does not go with it')
    if not 1 <= layers <= depth:
        raise UserError(f"weakening_layers={layers} does not fit a model of {depth} layers: it takes 1 to {depth}")


def _negatives(text: str) -> set[str]:
    named = [part.strip() for part in text.split("+")]
    if unknown := [part for part in named if part not in NEGATIVES]:
        raise ValueError(f"negatives are {', '.join(NEGATIVES)} joined by '+', got {unknown[0]!r}")
    return set(named)
