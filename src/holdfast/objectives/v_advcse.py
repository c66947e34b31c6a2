"""V-advCSE (Ko 2024): virtual adversarial training added to SimCSE."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.adversary.balls import per_coordinate, sentence_norm
from holdfast.adversary.divergence import Divergence, divergence_between, kl
from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.loss_rise import loss_rise
from holdfast.adversary.paired_noise import PairedNoise
from holdfast.adversary.virtual_adversary import BallNorm, VirtualAdversary
from holdfast.backbone import Features
from holdfast.encoder import Encoder
from holdfast.objectives.contrastive import full_precision
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import AnyHeadKind, Statistics
from holdfast.objectives.option_checks import check_positive, check_words
from holdfast.objectives.own_idea import attributes_replaced
from holdfast.objectives.regulariser_weight import RegulariserWeight, gradient_norms, share_of

SHARE = 0.1
"""The regulariser's share of the gradient, if neither λ nor a share is given."""

Space = Literal["sentence", "token"]


class VAdvCSE(ContrastiveObjective):
    r"""SimCSE with a regulariser: a worst-case perturbation must not change the softmax of a projected vector.

    With z = g(h) the projection of a sentence vector h by the train-only head g, p(y|x) = softmax(z) over z's
    coordinates, and F a distance of distributions (eq. 8-14, Algorithm 1)

    .. math::
        L = L_{cont} + \lambda F\big(p(y|x; \hat\theta),\, p(y|x + r; \theta)\big), \qquad
        r \leftarrow \Pi_{\lVert r \rVert \le \epsilon}\big(r + \eta\, g / \lVert g \rVert_2\big), \quad
        g = \nabla_r F, \quad r^0 \sim N(0, \sigma^2 I)

    with K ascent steps, sign(g) in place of g/‖g‖₂ for the L∞ ball (appendix A), and :math:`\hat\theta` a constant copy
    of the parameters: the clean side has no gradient. r is added to the first view of each sentence. The head's batch
    normalisation uses the statistics of the clean pass for the perturbed pass too, with their gradient. With λ = 0 it
    is SimCSE with the same head; trainings that differ in λ alone have the same batches and dropout masks, since the
    noise of the attack comes from a generator of its own.

    Args:
        regularisation: λ, weight of F in the loss; 0: no attack. None: λ follows from ``regularisation_share``.
        regularisation_share: share that the regulariser gets of the gradient with respect to the sentence vectors, in
            (0, 1): λ follows the running ratio of the two gradients. None: 0.1, or what λ gives if it is fixed.
        divergence: F: "js" (Jensen-Shannon, eq. 13), "kl" (KL(clean‖perturbed), eq. 11) or "symmetric-kl" (eq. 12).
        space: "sentence": r is added to the sentence vector h, so that the attack only uses the head; "token": r is
            added to the token embeddings, and the perturbed pass draws its own encoder dropout.
        norm: norm of the ball, "2" or "inf": the ordinary norm of a sentence's r, in token space over its real tokens.
        radius: ε, radius of the ball.
        steps: K, ascent steps; 0: r is the random start.
        step_size: η, length of a step in the ball's norm. None: ε.
        init_std: σ of r⁰ ~ N(0, σ²I). None: chosen so that ‖r⁰‖ is about ε/10 for every sentence.
        stop_gradient: treat the clean side of F as constant; false: it has a gradient too, as in the release.
        head: "bn" for the paper's head with batch normalisation, "tanh" for SimCSE's, or "none".
        as_released: reproduce the attack and the loss of the authors' code; see ``PRESETS["as_released"]``.

    Sources of the defaults, and differences from the release: ``docs/methods/v-advcse.md``.

    Inputs:
        A column of sentences, (B,); an optional second column holds their positives. Returns ``{"contrastive",
        "regulariser"}``, the terms of eq. 10, λ included.
    """

    TITLE: ClassVar = "V-advCSE"
    IDEA: ClassVar = (
        "the softmax of a projected sentence vector must not change under a worst-case perturbation (eq. 8-14)"
    )
    HEADS: ClassVar = AnyHeadKind
    OWN_IDEA: ClassVar = "the regulariser λF"
    IDEA_SHARE: ClassVar = 0.17
    CITATION: ClassVar = "Ko. V-advCSE: Virtual Adversarial Contrastive Learning for Sentence Embeddings. 2024."
    PRESETS: ClassVar = {
        "paper": {"regularisation": 1e-6, "duplicates": "keep"},
        "as_released": {
            "regularisation": 5e-7,
            "step_size": 1e-3,
            "init_std": 1e-5,
            "stop_gradient": False,
            "duplicates": "keep",
            "as_released": True,
        },
    }
    COST: ClassVar = 1.03

    def __init__(
        self,
        model: nn.Module,
        *,
        regularisation: float | None = None,
        regularisation_share: float | None = None,
        divergence: Divergence = "js",
        space: Space = "sentence",
        norm: BallNorm = "2",
        radius: float = 1.0,
        steps: int = 1,
        step_size: float | None = None,
        init_std: float | None = None,
        stop_gradient: bool = True,
        temperature: float = 0.05,
        head: AnyHeadKind = "bn",
        duplicates: Duplicates = "mask",
        as_released: bool = False,
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_words(divergence=(divergence, Divergence), space=(space, Space), norm=(norm, BallNorm))
        check_positive(radius=radius, step_size=step_size, init_std=init_std)
        if None not in (regularisation, regularisation_share):
            raise ValueError("regularisation fixes λ, and regularisation_share adapts it: give one of them")
        if steps < 0:
            raise ValueError(f"steps must not be negative, got {steps}")
        if as_released and (divergence, space, norm) != ("js", "sentence", "2"):
            raise ValueError("as_released has divergence='js', space='sentence' and norm='2' only")
        self.weight = RegulariserWeight(regularisation, SHARE if regularisation_share is None else regularisation_share)
        self.noise = None if regularisation == 0.0 else PairedNoise()  # without an attack there is no state of it
        self.regularisation, self.divergence, self.space = regularisation, divergence, space
        self.adversary = VirtualAdversary(steps, radius, step_size, norm, init_std, as_released)
        self.stop_gradient, self.as_released = stop_gradient, as_released

    def needs_dropout(self, columns: int) -> bool:
        """Return True unless the data has positives."""
        return columns == 1

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run training pass, attack and perturbed pass; return ``{"contrastive", "regulariser"}``, scalars."""
        sentences, positives = self.columns(sentence_features)
        self.diagnostics = {}
        encoder, equal = self.encoder, self.equal_texts(sentences, positives)
        with encoder.recording() as recording:
            h = encoder.encode(sentences, views=2 if positives is None else 1)
        if positives is not None:
            h = torch.cat([h, encoder.encode(positives)])
        of_tokens: list[Tensor] = []  # the perturbed vectors of token space, which are encoded once

        def terms(cut: Cut) -> dict[str, Tensor]:
            z, (statistics, _) = self.head.with_statistics(cut(h), views=2)
            z, z_positive = z.chunk(2)
            if self.regularisation == 0.0:  # no random numbers are drawn: exactly SimCSE, to the bit
                self.diagnostics["gradient_share"] = z.new_zeros(())
                return {"contrastive": self.in_batch_loss(z, z_positive, equal), "regulariser": z.new_zeros(())}
            if self.space == "sentence":
                x = cut(h)[: len(z), None]
                h_perturbed = self._attacked(encoder, sentences, x, z, statistics)
            else:
                x = recording.embeddings[: len(z)]
                of_tokens[:] = of_tokens or [self._attacked(encoder, sentences, x, z, statistics)]
                h_perturbed = cut(of_tokens[0])
            contrastive = self.in_batch_loss(z, z_positive, equal)
            distance = self.distance(z, self._project(h_perturbed, statistics))
            if h.requires_grad:
                self._weigh(distance, contrastive, [h] if self.space == "sentence" else [h, h_perturbed])
            return {"contrastive": contrastive, "regulariser": self.weight.value * distance}

        return self.at_each_dimension(terms)

    def _weigh(self, distance: Tensor, contrastive: Tensor, vectors: list[Tensor]) -> None:
        """Adapt λ by the gradients of both terms, which go only through the head, and log the regulariser's share."""
        of_distance, of_contrastive = gradient_norms([distance, contrastive], vectors)
        # Whole vectors come first, and the shortened ones of the same step have their λ.
        if self.is_training_pass and "gradient_share" not in self.diagnostics:
            self.weight.measure(of_distance, of_contrastive)
        weight = self.weight.value
        self.diagnostics["gradient_share"] = share_of(weight * of_distance, of_contrastive)
        if isinstance(weight, Tensor):
            self.diagnostics["regularisation"] = weight

    def _attacked(self, encoder: Encoder, sentences: Features, x: Tensor, z: Tensor, statistics: Statistics) -> Tensor:
        """Return the sentence vectors (B, d) of x + r."""
        r = self.attack(encoder, sentences, x.detach(), z.detach(), statistics)
        if self.space == "sentence":
            return self._perturbed(encoder, sentences, x, r)
        assert self.noise is not None
        with self.noise.in_place(x.device, move=self.is_training_pass):  # a further pass, with dropout masks
            return self._perturbed(encoder, sentences, x, r)

    def distance(self, z: Tensor, z_perturbed: Tensor) -> Tensor:
        """Return the mean F of the softmax of projected vectors of x and of x + r, both (B, d); a scalar."""
        clean = z.detach() if self.stop_gradient else z
        with full_precision(z):
            between = _released_js if self.as_released else divergence_between
            return between(clean, z_perturbed, self.divergence).mean()

    def attack(self, encoder: Encoder, sentences: Features, x: Tensor, z: Tensor, statistics: Statistics) -> Tensor:
        """Compute the perturbation r of detached x, both (B, L, d), that moves the softmax away from that of z (B, d).

        In sentence space L is 1 and x holds the sentence vectors. Parameters, their gradients and the module's mode are
        left unchanged, and so is the global random state.
        """
        mask = self._mask(sentences, x)
        kind: Divergence = "kl" if self.as_released else self.divergence

        def loss(at: Tensor) -> Tensor:
            z_perturbed = self._project(self._perturbed(encoder, sentences, x, at), statistics)
            with full_precision(z):
                return divergence_between(z, z_perturbed, kind).mean()

        start = self.initial_noise(x, mask)
        # In sentence space the attack runs in fp32, including backward; in token space in the training's precision.
        precision = full_precision(x) if self.space == "sentence" else contextlib.nullcontext()
        # In an evaluation the attack computes gradients too, but running statistics must not move.
        still = contextlib.nullcontext() if self.is_training_pass else self.head.unmoved()
        with encoder.attack_mode(), precision, still:
            r, values = self.adversary.climb(start, mask, loss)
            # A pass of the head alone is cheap; with as_released it would move the running statistics.
            if self.space == "sentence" and not self.as_released:
                with torch.no_grad():
                    values.append(loss(r))
        norm = self.adversary.norm
        unit = per_coordinate(1.0, mask, x.shape[-1], norm)
        self.diagnostics["delta_norm"] = (sentence_norm(r, mask, norm) / unit).mean()
        if len(values) > 1:
            self.diagnostics |= loss_rise(values[0], values[-1])
        return r

    def initial_noise(self, x: Tensor, mask: Tensor) -> Tensor:
        """Draw r⁰ ~ N(0, σ²I), (B, L, d), in fp32, from the objective's own generator."""
        assert self.noise is not None
        return self.adversary.noise(x, mask, self.noise.generator(move=self.is_training_pass))

    def _mask(self, sentences: Features, x: Tensor) -> Tensor:
        if self.space == "sentence":
            return torch.ones(x.shape[:2], device=x.device, dtype=torch.promote_types(x.dtype, torch.float32))
        mask: Tensor = self.encoder.text_mask(sentences)[:, : x.shape[1]]
        return mask.to(torch.promote_types(x.dtype, torch.float32))

    def _perturbed(self, encoder: Encoder, sentences: Features, x: Tensor, r: Tensor) -> Tensor:
        """Return the sentence vectors (B, d) of x + r."""
        if self.space == "sentence":
            return (x + r).squeeze(1)
        with encoder.perturbed(embeddings=x, delta=r):
            return encoder.encode(sentences)

    def _project(self, h_perturbed: Tensor, statistics: Statistics) -> Tensor:
        z_perturbed: Tensor = self.head(h_perturbed, statistics=None if self.as_released else statistics)
        return z_perturbed

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which the loss is the contrastive term alone."""
        forward = self.forward

        def contrastive(*given: Any) -> dict[str, Tensor]:
            return {"contrastive": forward(*given)["contrastive"]}

        return attributes_replaced(self, forward=contrastive)


def _released_js(clean: Tensor, perturbed: Tensor, _: Divergence) -> Tensor:
    """Return the release's divergence, (B,): eq. 13, arguments swapped, M constant: ``(KL(M‖P) + KL(M‖Q))/2``."""
    mean = (clean.softmax(dim=-1) + perturbed.softmax(dim=-1)).detach() / 2
    return (kl(mean.log(), clean.log_softmax(dim=-1)) + kl(mean.log(), perturbed.log_softmax(dim=-1))) / 2
