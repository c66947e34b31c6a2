"""Progress bar of the training of a language model."""

from __future__ import annotations

from rich.console import Console

from holdfast.pretraining.pretrain_trainer import Clock
from holdfast.pretraining.step_order import StepOrder
from holdfast.progress import Stage


class PretrainStage(Stage):
    """Progress bar of a pretraining: tokens per second, loss, held-out perplexity and the time left.

    Args:
        console: console to draw on.
        order: gives the tokens of each step.
        clock: if it ends the run, bar and time left follow it instead of the steps.
    """

    def __init__(self, console: Console, order: StepOrder, clock: Clock) -> None:
        super().__init__(console, "training", unit="steps")
        self.order, self.clock = order, clock
        self._tokens, self._first_tokens = 0, 0

    def restart(self, *, total: float | None = None, first: float = 0) -> None:
        """Restart the count; without the total, which is unknown, if time ends the run."""
        self._tokens = self._first_tokens = self.order.tokens_before(int(first))
        super().restart(total=None if self.clock.leads else total, first=first)

    def update(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Update the progress; tokens are counted here, in the thread of the training, which uses the same order."""
        self._tokens = self.order.tokens_before(int(done))
        super().update(done, total, note)

    def rate(self) -> str:
        """Return the tokens per second, as text."""
        tokens = self._tokens - self._first_tokens
        return f"{tokens / self.elapsed:,.0f} tokens/s" if tokens else ""

    def remaining(self) -> tuple[float, float] | None:
        """Return the share of the time limit that is over, and the seconds left; None if the steps end the run."""
        left = max(self.clock.seconds - self.clock.elapsed, 0.0)
        return (self.clock.share, left) if self.clock.leads else None
