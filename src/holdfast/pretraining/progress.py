"""What a person sees while a language model trains."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from holdfast.pretraining.order import StepOrder
from holdfast.pretraining.trainer import Clock
from holdfast.progress import Stage, duration
from holdfast.training.progress import TrainingProgress


class PretrainStage(Stage):
    """Steps of a pretraining: tokens a second, loss, held-out perplexity and the time left.

    Args:
        console: where it is shown.
        order: what knows the tokens of each step.
        clock: where it ends the run, the time that the bar and the time left go by.
    """

    def __init__(self, console: Console, order: StepOrder, clock: Clock) -> None:
        super().__init__(console, "training", unit="steps")
        self.order, self.clock = order, clock
        self._tokens, self._first_tokens = 0, 0

    def restart(self, *, total: float | None = None, first: float = 0) -> None:
        """Count anew, from now on."""
        self._tokens = self._first_tokens = self.order.tokens_before(int(first))
        super().restart(total=total, first=first)

    def update(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far it is. The tokens are counted here, in the thread of the training, whose order this is."""
        self._tokens = self.order.tokens_before(int(done))
        super().update(done, total, note)

    @property
    def share(self) -> float | None:
        """How much is done: of the time where that ends the run."""
        return self.clock.share if self.clock.leads else super().share

    def count(self) -> str:
        """Return the steps that are done; of how many is not known where time ends the run."""
        return f"{self.done:,} steps" if self.clock.leads else super().count()

    def rate(self) -> str:
        """Return the tokens a second."""
        tokens = self._tokens - self._first_tokens
        return f"{tokens / self.elapsed:,.0f} tokens/s" if tokens else ""

    def left(self) -> str:
        """Return the time left."""
        left = max(self.clock.seconds - self.clock.elapsed, 0.0)
        return f"ETA {duration(left)}" if self.clock.leads else super().left()


class PretrainProgress(TrainingProgress):
    """Shows a pretraining: a bar on a terminal; elsewhere a line per log record, and in between every few seconds.

    Args:
        console: where to draw.
        order: what knows the tokens of each step.
        clock: what ends the run, where time does.
    """

    def __init__(self, console: Console, order: StepOrder, clock: Clock) -> None:
        super().__init__(console, 1)
        self.stage = PretrainStage(console, order, clock)

    def score_of(self, metrics: dict[str, float]) -> str | None:
        """Return what was measured on the held-out sentences."""
        return f"held-out perplexity {metrics['eval_perplexity']:.2f}, {metrics['eval_masked_accuracy']:.1f} % right"

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show it; without a terminal, print a line."""
        super().on_evaluate(args, state, control, **kwargs)
        if not self.console.is_terminal:
            self.stage.tell()
