"""RobustEmbed's perturbation on a labelled task (Rafiei Asl, Blanco and Takabi, Findings of EMNLP 2023, Table 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from holdfast.adversary.ascent import MixedAscent, Trajectory, gaussian
from holdfast.adversary.balls import Norm
from holdfast.classifiers.defences.option_checks import check_sizes
from holdfast.classifiers.defences.perturbation import PerturbationTraining


class RobustEmbedDefence(PerturbationTraining):
    r"""Training on the text and its worst perturbation by RobustEmbed's mix of PGD and FGSM.

    .. math::
        \delta \leftarrow \lambda\, \Pi_\epsilon(\delta + \alpha\, g/\|g\|_P)
            + (1-\lambda)\, \Pi_\epsilon(\delta + \beta\, \mathrm{sign}\, g), \qquad
        L = (1-w)\,L(x) + w\,L(x + \delta)

    where g is the gradient of the task's loss at δ (eq. 3-5 with the loss of the task in place of the contrastive one;
    :class:`~holdfast.adversary.ascent.MixedAscent`, as in the training without labels), with dropout off and the
    parameters frozen. x is the input of the first layer; δ is zero at padding.

    Args:
        pgd_steps: K, number of PGD steps.
        fgsm_steps: T, number of FGSM steps.
        pgd_size: α, step of the PGD part, in units of one embedding coordinate.
        fgsm_size: β, step of the FGSM part in each coordinate.
        radius: ε, in units of one embedding coordinate. None: T·β, the maximum length of the FGSM part, or K·α without
            an FGSM part.
        mix: λ in [0, 1], share of the PGD part.
        norm: P of the ball, "1", "2" or "inf", per text over its real tokens, in per-coordinate units.
        init_std: σ of δ⁰ ~ N(0, σ²I); None: ε/10.
        trajectory: "mixed" (δ moves to the mix at each step) or "separate" (two chains, mixed at the end).

    Defaults: α, β, K, T, P and λ are the paper's for its training without labels. For fine-tuning the paper
    only names a "similar" approach (appendix C, Table 7); ε = T·β, σ = ε/10 and w = 1/2 are holdfast's.
    """

    IDEA: ClassVar = "the text and its worst perturbation by a mix of PGD and FGSM"
    CITATION: ClassVar = (
        "Rafiei Asl, Blanco and Takabi. RobustEmbed: Robust Sentence Embeddings Using Self-Supervised Contrastive "
        "Pre-Training. Findings of EMNLP 2023."
    )

    def __init__(
        self,
        *,
        pgd_steps: int = 5,
        fgsm_steps: int = 5,
        pgd_size: float = 1e-5,
        fgsm_size: float = 1e-3,
        radius: float | None = None,
        mix: float = 0.5,
        norm: Norm = "inf",
        init_std: float | None = None,
        trajectory: Trajectory = "mixed",
        share: float = 0.5,
    ) -> None:
        super().__init__(share)
        check_sizes(pgd_steps=pgd_steps, fgsm_steps=fgsm_steps, pgd_size=pgd_size, fgsm_size=fgsm_size)
        check_sizes(radius=radius or 0.0, init_std=init_std or 0.0)
        self.ascent = MixedAscent.reaching(pgd_steps, fgsm_steps, pgd_size, fgsm_size, mix, radius, norm, trajectory)
        self.init_std = self.ascent.radius / 10 if init_std is None else init_std

    def climb(self, like: Tensor, mask: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return δ after max(K, T) mixed steps from noise, and the losses."""
        return self.ascent.climb(gaussian(like, self.init_std), mask, loss)
