"""Progress display of the training of a language model."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from holdfast.pretraining.pretrain_trainer import Clock
from holdfast.pretraining.step_order import StepOrder
from holdfast.runs.training_progress import TrainingProgress


class PretrainProgress(TrainingProgress):
    """Progress display of a pretraining: tokens per second, loss, held-out perplexity and the time left.

    Args:
        console: console to draw on.
        order: gives the tokens of each step.
        clock: if it ends the run, bar and time left follow it instead of the steps.
    """

    PRINTS_SCORES = True

    def __init__(self, console: Console, order: StepOrder, clock: Clock) -> None:
        super().__init__(console, 1)
        self.order, self.clock = order, clock
        self._tokens, self._first_tokens = 0, 0

    def rate(self) -> str:
        """Return the tokens per second, as text."""
        tokens = self._tokens - self._first_tokens
        return f"{tokens / self.stage.elapsed:,.0f} tokens/s" if tokens else ""

    def remaining(self) -> tuple[float, float] | None:
        """Return the share of the time limit that is over, and the seconds left; None if the steps end the run."""
        left = max(self.clock.seconds - self.clock.elapsed, 0.0)
        return (self.clock.share, left) if self.clock.leads else None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock."""
        self._tokens = self._first_tokens = self.order.tokens_before(int(state.global_step))
        super().on_train_begin(args, state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance; tokens are counted here, in the thread of the training, which uses the same order."""
        self._tokens = self.order.tokens_before(int(state.global_step))
        super().on_step_end(args, state, control)

    def score_of(self, metrics: dict[str, float]) -> str | None:
        """Return the measurements on the held-out sentences, as text."""
        return f"held-out perplexity {metrics['eval_perplexity']:.2f}, {metrics['eval_masked_accuracy']:.1f} % right"
