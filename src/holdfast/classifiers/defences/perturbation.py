"""Training on a perturbation of the embeddings, found by an ascent on the task's loss."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator

from torch import Tensor, nn

from holdfast.adversary.loss_rise import loss_rise
from holdfast.classifiers.defences.defence import Defence, Moment, Passes, TaskBatch


class PerturbationTraining(Defence):
    """Base class of defences with the loss (1−w)·L(x) + w·L(x+δ), where δ increases L.

    A term of weight 0 is not computed.

    Args:
        share: w in [0, 1].
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"share must lie in [0, 1], got {share:g}")
        self.share = share

    @abstractmethod
    def climb(self, like: Tensor, mask: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return a detached δ (B, L, d) with a high ``loss``, and the loss at each point where a gradient was taken.

        Args:
            like: (B, L, d): the shape, precision and device of δ.
            mask: (B, L), 1 at real tokens.
            loss: function of δ that returns a scalar.
        """

    def losses(self, model: nn.Module, batch: TaskBatch, moment: Moment) -> Iterator[Tensor]:
        """Yield one loss."""
        passes = Passes(model, batch)
        if self.share == 0.0:
            yield passes.loss()
            return
        delta = self.attack(passes)
        adversarial = passes.loss(delta)
        yield adversarial if self.share == 1.0 else (1.0 - self.share) * passes.loss() + self.share * adversarial

    def attack(self, passes: Passes) -> Tensor:
        """Return δ (B, L, d), detached and zero at padding; the model and the random state are restored."""
        with passes.attack():
            delta, values = self.climb(passes.no_delta, passes.mask, passes.loss)
        # The loss at the last δ is not computed: the rise is measured up to the step before it.
        self.diagnostics = loss_rise(values[0], values[-1]) if len(values) > 1 else {}
        return delta
