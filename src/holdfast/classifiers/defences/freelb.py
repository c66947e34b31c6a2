"""FreeLB: training on every step of the ascent (Zhu, Cheng, Gan, Sun, Goldstein and Liu, ICLR 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.balls import per_coordinate, project, unit_direction
from holdfast.adversary.loss_rise import loss_rise
from holdfast.adversary.virtual_adversary import BallNorm
from holdfast.classifiers.defences.defence import Defence, Moment, Passes, TaskBatch
from holdfast.classifiers.defences.option_checks import check_ball, check_sizes


class FreeLB(Defence):
    r"""The mean loss over all points of an ascent on the embeddings, with one gradient per point (Algorithm 1).

    .. math::
        g_\theta = \frac{1}{K} \sum_{t=0}^{K-1} \nabla_\theta L(x + \delta_t, y), \qquad
        \delta_0 \sim \mathcal{U}(-s, s) / \sqrt{n}, \qquad
        \delta_{t+1} = \Pi_\epsilon(\delta_t + \alpha\, \nabla_\delta L / \|\nabla_\delta L\|_2)

    where n is the number of coordinates of a text. One forward and backward pass gives both gradients, so that a step
    costs K times a step of an undefended training. Dropout is on, with the same masks in all K passes (§3.3). x is the
    input of the first layer; δ is zero at padding. Norms are those of a text's δ as one vector, not per coordinate.

    Args:
        steps: K, at least 1; with 1 it trains on the noise δ₀ only.
        radius: ε, in the units of the input of the first layer, whose coordinates are of size about 0.5 in BERT; a text
            has length·d coordinates.
        step_size: α, in the same units.
        start: s, the size of δ₀, in the same units; None: ε, as in Algorithm 1.
        norm: "2", or "inf" (steps along g/‖g‖∞ there, as in the authors' code, and δ₀ uniform in ±s).

    Defaults: K = 3 is from the authors' GLUE scripts. ε and α are holdfast's (``docs/finetune.md``): the paper's
    values, mostly 0.2 to 0.7 and 0.1, are for word vectors, which are about ten times shorter than the first layer's
    input.

    Differences from the release: there δ is added to the word vectors, before positions and LayerNorm.
    """

    IDEA: ClassVar = "the mean over all steps of an ascent on the embeddings"
    CITATION: ClassVar = (
        "Zhu et al. FreeLB: Enhanced Adversarial Training for Natural Language Understanding. ICLR 2020."
    )

    def __init__(
        self,
        *,
        steps: int = 3,
        radius: float = 1.0,
        step_size: float = 0.5,
        start: float | None = None,
        norm: BallNorm = "2",
    ) -> None:
        super().__init__()
        check_ball(steps=steps, radius=radius, step_size=step_size)
        self.steps, self.radius, self.step_size, self.norm = steps, radius, step_size, norm
        self.start = radius if start is None else start
        check_sizes(start=self.start)

    def losses(self, model: nn.Module, batch: TaskBatch, moment: Moment) -> Iterator[Tensor]:
        """Yield K losses, each divided by K."""
        passes = Passes(model, batch)
        delta = self.initial_noise(passes)  # the first pass restores the random state
        values: list[Tensor] = []
        for step in range(self.steps):
            delta = delta.detach().requires_grad_()
            loss = passes.loss(delta)
            values.append(loss.detach())
            yield loss / self.steps
            assert delta.grad is not None  # the trainer has called backward on the loss
            if step + 1 < self.steps:
                delta = self.climbed(delta.detach(), delta.grad, passes.mask)
        self.diagnostics = loss_rise(values[0], values[-1]) if len(values) > 1 else {}

    def initial_noise(self, passes: Passes) -> Tensor:
        """Return δ₀ (B, L, d), inside the ball and zero at padding."""
        like = passes.no_delta
        noise = torch.rand(like.shape, dtype=like.dtype, device=like.device) * 2.0 - 1.0
        size = per_coordinate(self.start, passes.mask, like.shape[-1], self.norm)
        return self._confined(noise * size[:, None, None], passes.mask)

    def climbed(self, delta: Tensor, slope: Tensor, mask: Tensor) -> Tensor:
        """Return δ (B, L, d) after one step of the ascent."""
        size = per_coordinate(self.step_size, mask, delta.shape[-1], self.norm)
        return self._confined(delta + unit_direction(slope, mask, self.norm) * size[:, None, None], mask)

    def _confined(self, delta: Tensor, mask: Tensor) -> Tensor:
        return project(delta, mask, self.norm, per_coordinate(self.radius, mask, delta.shape[-1], self.norm))
