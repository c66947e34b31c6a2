"""PGD: training on the worst perturbation in a ball around the embeddings (Madry et al., ICLR 2018)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from holdfast.adversary.virtual_adversary import BallNorm, VirtualAdversary
from holdfast.classifiers.defences.option_checks import check_ball
from holdfast.classifiers.defences.perturbation import PerturbationTraining


class PGD(PerturbationTraining):
    r"""Training on the worst perturbation of the embeddings in a ball instead of the text (Madry et al. 2018, eq. 2.1).

    .. math::
        \min_\theta \mathbb{E}\,\max_{\|\delta\| \le \epsilon} L(x + \delta, y; \theta), \qquad
        \delta \leftarrow \Pi_\epsilon(\delta + \alpha\, g / \|g\|_2)

    for K steps from noise inside the ball (:class:`~holdfast.adversary.virtual_adversary.VirtualAdversary`; in the
    L∞ ball along sign g), with dropout off and the parameters frozen. x is the input of the first layer: the
    embeddings with their positions, after LayerNorm; δ is zero at padding, but not at [CLS] and [SEP]. Norms are those
    of a text's δ as one vector, not per coordinate.

    Args:
        steps: K; with 0, δ is the initial noise.
        radius: ε, in the units of the input of the first layer, whose coordinates are of size about 0.5 in BERT; a text
            has length·d coordinates.
        step_size: α, in the same units; None: 2.5·ε/K, with which K steps can cross the ball (Madry et al.'s code).
        norm: "2" or "inf".
        init_std: σ of δ⁰ ~ N(0, σ²I), in units of one coordinate; None: such that ‖δ⁰‖ is about ε/10.
        share: w in (1−w)·L(x) + w·L(x+δ); 1, the paper's value, trains on the perturbed texts only.

    Defaults: K = 3 as in FreeLB's scripts; ε is holdfast's, chosen on held-out training texts (``docs/finetune.md``):
    published values are for other inputs (images, or word vectors before LayerNorm).
    """

    IDEA: ClassVar = "the worst perturbation of the embeddings in a ball, in place of the text"
    CITATION: ClassVar = "Madry et al. Towards Deep Learning Models Resistant to Adversarial Attacks. ICLR 2018."

    def __init__(
        self,
        *,
        steps: int = 3,
        radius: float = 0.3,
        step_size: float | None = None,
        norm: BallNorm = "2",
        init_std: float | None = None,
        share: float = 1.0,
    ) -> None:
        super().__init__(share)
        step_size = 2.5 * radius / max(steps, 1) if step_size is None else step_size
        check_ball(steps=steps, radius=radius, step_size=step_size, init_std=init_std, least_steps=0)
        self.adversary = VirtualAdversary(steps, radius, step_size, norm, init_std)

    def climb(self, like: Tensor, mask: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return δ after K projected steps from noise, and the losses."""
        return self.adversary.climb(self.adversary.noise(like, mask), mask, loss)
