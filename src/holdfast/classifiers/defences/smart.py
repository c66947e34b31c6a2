"""SMART: a smooth classifier that moves slowly (Jiang, He, Chen, Liu, Gao and Zhao, ACL 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.adversary.virtual_adversary import BallNorm, VirtualAdversary
from holdfast.classifiers.defences.defence import Defence, Moment, Passes, TaskBatch, Training
from holdfast.classifiers.defences.option_checks import check_ball, check_sizes
from holdfast.classifiers.losses import divergence, task_loss
from holdfast.models import evaluating

_WARM = 0.1
"""First share of the training, in which the teacher follows faster (§4.1)."""


class SMART(Defence):
    r"""Penalties on changes of the output under a small perturbation and between successive states of the weights.

    .. math::
        L(x) + \lambda_s \max_{\|\delta\|_\infty \le \epsilon} \ell_s(f(x+\delta; \theta), f(x; \theta))
             + \mu\, \ell_s(f(x; \theta), f(x; \tilde\theta)), \qquad
        \tilde\theta \leftarrow \beta\,\tilde\theta + (1-\beta)\,\theta

    (§2.1-2.2, Algorithm 1), with :math:`\ell_s(P, Q) = KL(P\|Q) + KL(Q\|P)`, or the squared difference for a
    regression. δ is found by K steps of ascent on :math:`\ell_s` from noise, with dropout off, the parameters frozen
    and f(x; θ) fixed; the gradient of the smoothness term then flows into both of its arguments, which have the same
    dropout masks. The teacher :math:`\tilde\theta` starts from the initial weights of the training and is updated after
    each optimiser step; its dropout is off. x is the input of the first layer; δ is zero at padding.

    Args:
        smoothness: λ_s, weight of the smoothness term; 0 switches it off.
        steps: K, steps of the ascent.
        radius: ε, in units of one embedding coordinate (for norm="2", the L2 norm of a text's δ).
        step_size: η, in the same units.
        norm: "inf" (steps along sign g) or "2" (along g/‖g‖₂), of a text's δ as one vector.
        init_std: σ of δ⁰ ~ N(0, σ²I), in units of one coordinate; with 0 there is no ascent, as ℓ_s is flat at δ = 0.
        proximity: μ, weight of the proximal term; 0 switches it off, and there is no teacher.
        momentum: β after the first tenth of the training.
        warm_momentum: β in the first tenth.

    Defaults: the paper's (§4.1) except ε and λ_s. The paper searches λ_s; 1 is the default of its code. The paper's
    ε = 10⁻⁵ cuts a step of 10⁻³ to a hundredth of its length, which gives a smoothness term of 3·10⁻⁷ (a MiniLM
    fine-tuned on MR, with a loss of 0.16): too small to learn from. Its code does not project, so its radius is η; our
    default is η too, and gives a term of 3·10⁻³.

    The training is in fp32: the initial noise of the ascent, and its gradients, are below the rounding of bf16.

    Differences from the release: there the step is along g/‖g‖∞ of each token and increases KL(f(x)‖f(x+δ)) with
    dropout on and other masks in each pass, so that the term is not zero at δ = 0; it has no proximal term.
    """

    IDEA: ClassVar = "an output that is smooth around each text and moves slowly"
    CITATION: ClassVar = (
        "Jiang et al. SMART: Robust and Efficient Fine-Tuning for Pre-trained Natural Language Models through "
        "Principled Regularized Optimization. ACL 2020."
    )
    NEEDS_FP32: ClassVar = True

    def __init__(
        self,
        *,
        smoothness: float = 1.0,
        steps: int = 1,
        radius: float = 1e-3,
        step_size: float = 1e-3,
        norm: BallNorm = "inf",
        init_std: float = 1e-5,
        proximity: float = 1.0,
        momentum: float = 0.999,
        warm_momentum: float = 0.99,
    ) -> None:
        super().__init__()
        check_ball(steps=steps, radius=radius, step_size=step_size, init_std=init_std, least_steps=0)
        check_sizes(smoothness=smoothness, proximity=proximity)
        for name, value in {"momentum": momentum, "warm_momentum": warm_momentum}.items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {value:g}")
        self.smoothness, self.proximity = smoothness, proximity
        self.momentum, self.warm_momentum = momentum, warm_momentum
        self.adversary = VirtualAdversary(steps, radius, step_size, norm, init_std)
        self.teacher: dict[str, Tensor] = {}

    def begin(self, training: Training) -> None:
        """Copy the model's weights to the teacher."""
        if self.proximity:
            parameters = training.model.named_parameters()
            self.teacher = {name: parameter.detach().clone() for name, parameter in parameters}

    def losses(self, model: nn.Module, batch: TaskBatch, moment: Moment) -> Iterator[Tensor]:
        """Yield one loss of up to three terms."""
        passes = Passes(model, batch)
        delta = self.attack(passes) if self.smoothness else None
        logits = passes.logits()
        loss = task_loss(logits, batch.labels)
        if delta is not None:
            smoothness = divergence(passes.logits(delta), logits)
            loss = loss + self.smoothness * smoothness
            self.diagnostics["smoothness"] = smoothness.detach()
        if self.proximity:
            proximity = divergence(logits, self.teacher_logits(passes))
            loss = loss + self.proximity * proximity
            self.diagnostics["proximity"] = proximity.detach()
        yield loss

    def attack(self, passes: Passes) -> Tensor:
        """Return δ (B, L, d), detached and zero at padding; the model and the random state are restored."""
        with passes.attack():
            reference = passes.logits().detach()
            noise = self.adversary.noise(passes.no_delta, passes.mask)
            return self.adversary.climb(noise, passes.mask, lambda r: divergence(passes.logits(r), reference))[0]

    @torch.no_grad()
    def teacher_logits(self, passes: Passes) -> Tensor:
        """Return the teacher's logits f(x; θ̃), (B, C), without gradient."""
        with evaluating(passes.model):
            logits: Tensor = functional_call(passes.model, self.teacher, kwargs=dict(passes.batch.features)).logits
        return logits

    @torch.no_grad()
    def follow(self, model: nn.Module, moment: Moment) -> None:
        """Move the teacher's weights towards the model's."""
        if not self.proximity:
            return
        beta = self.warm_momentum if moment.step <= _WARM * moment.steps else self.momentum
        for name, parameter in getattr(model, "module", model).named_parameters():
            self.teacher[name].lerp_(parameter.detach(), 1.0 - beta)

    def state(self) -> dict[str, Tensor]:
        """Return the teacher's weights."""
        return self.teacher

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load a teacher's weights."""
        for name, value in state.items():
            self.teacher[name].copy_(value)
