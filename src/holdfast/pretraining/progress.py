"""What a person sees while a language model trains."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.pretraining.order import StepOrder
from holdfast.pretraining.trainer import Clock


class PretrainProgress(TrainerCallback):  # type: ignore[misc]
    """A bar with steps, tokens/s, loss, held-out perplexity and ETA on a terminal; a line per log record elsewhere.

    Args:
        console: where to draw.
        order: what knows the tokens of each step.
        clock: where it ends the run, the time that the ETA and the bar go by.
    """

    def __init__(self, console: Console, order: StepOrder, clock: Clock) -> None:
        self.console, self.order, self.clock = console, order, clock
        self._bar = Progress(
            TextColumn("training", markup=False),
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, start=False)
        self._loss, self._held_out = "", ""
        self._began, self._first_step, self._first_token = 0.0, 0, 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock."""
        self._began, self._first_step = time.monotonic(), state.global_step
        self._first_token = self.order.tokens_before(state.global_step)
        self._bar.start()
        self._bar.start_task(self._task)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance."""
        self._bar.update(self._task, completed=self._share(state), description=self._line(state))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the loss; without a terminal, print a line."""
        if "loss" not in kwargs["logs"]:
            return
        self._loss = f"loss {kwargs['logs']['loss']:.3f}"
        if not self.console.is_terminal:
            self.console.print(self._line(state), highlight=False)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show what was measured on the held-out sentences."""
        told = kwargs["metrics"]
        self._held_out = (
            f"held-out perplexity {told['eval_perplexity']:.2f}, {told['eval_masked_accuracy']:.1f} % right"
        )
        if not self.console.is_terminal:
            self.console.print(f"step {state.global_step}  {self._held_out}", highlight=False)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop drawing."""
        self.close()

    def close(self) -> None:
        """Stop drawing, also after an error."""
        self._bar.stop()

    def _share(self, state: TrainerState) -> float:
        return self.clock.share if self.clock.leads else state.global_step / state.max_steps

    def _line(self, state: TrainerState) -> str:
        step, took = state.global_step, max(time.monotonic() - self._began, 1e-9)
        rate = (self.order.tokens_before(step) - self._first_token) / took
        if self.clock.leads:
            left, of = self.clock.seconds - self.clock.elapsed, ""
        else:
            done = max(step - self._first_step, 1)
            left, of = (state.max_steps - step) * took / done, f"/{state.max_steps}"
        parts = (f"step {step}{of}", self._loss, self._held_out, f"{rate:,.0f} tokens/s", f"ETA {left / 60:.1f} min")
        return "  ".join(part for part in parts if part)
