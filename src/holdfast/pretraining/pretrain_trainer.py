"""An adapter of ``transformers.Trainer``: steps of several groups, a time limit, sealed checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from transformers import Trainer

from holdfast.files import write_json
from holdfast.pretraining.batches import Group, TrainingSteps
from holdfast.pretraining.model import loss_of, measure
from holdfast.runs.resumable import Resumable

CLOCK_FILE = "clock.json"


class Clock:
    """The training time of a run, summed over its parts (before and after a resume).

    Args:
        seconds: time limit; infinite for a run that ends by steps.
        now: returns the current time in seconds.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._now = seconds, now
        self._before, self._began = 0.0, now()

    def start(self) -> None:
        """Start the clock, in addition to the time of earlier parts."""
        self._began = self._now()

    def set(self, elapsed: float) -> None:
        """Continue from so many seconds."""
        self._before, self._began = elapsed, self._now()

    @property
    def elapsed(self) -> float:
        """The seconds so far."""
        return self._before + self._now() - self._began

    @property
    def leads(self) -> bool:
        """True if a time limit ends the run."""
        return math.isfinite(self.seconds)

    @property
    def share(self) -> float:
        """The elapsed share of the time limit, from 0 to 1."""
        return min(self.elapsed / self.seconds, 1.0)


def rate_factor(share: float, warmup: float) -> float:
    """Return the factor of the peak learning rate at a share of the run: linear up to ``warmup``, then down to 0."""
    return share / warmup if share < warmup else (1 - share) / (1 - warmup)


class PretrainTrainer(Resumable, Trainer):  # type: ignore[misc]
    """Trainer of a masked language model.

    Differences from ``transformers.Trainer``: a step makes a backward pass for each of its groups, whose gradients add
    up to that of the mean over all places of the step; groups and masks are functions of seed and step, so that a
    resumed run continues bit-exactly; the learning rate follows the steps or a clock.

    Args:
        model: the masked language model.
        steps: groups of each step.
        held_out: groups for evaluation; may be empty.
        warmup: share of the run for the warm-up.
        clock: measures the time of the run; if it has a limit, it ends the run, and the learning rate follows it
            instead of the number of steps.
        keep_checkpoints: as in `Resumable`.
        **kwargs: as for ``transformers.Trainer``.
    """

    def __init__(
        self,
        *,
        model: Any,
        steps: TrainingSteps,
        held_out: list[Group],
        warmup: float,
        clock: Clock,
        keep_checkpoints: int,
        **kwargs: Any,
    ) -> None:
        self.steps, self.clock, self.keep_checkpoints = steps, clock, keep_checkpoints
        self._held_out, self._warmup = held_out, warmup
        self._last_log: tuple[float, int] | None = None
        self.lr_scheduler: LambdaLR | None
        super().__init__(model=model, train_dataset=steps, eval_dataset=range(0), **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader of the steps in order; a resumed run skips step numbers without loading data."""
        return self.loader(self.steps, BatchSampler(SequentialSampler(self.steps), 1, drop_last=False), itemgetter(0))

    def begin_training(self) -> None:
        """Start the clock."""
        self.clock.start()

    def is_over(self) -> bool:
        """Return True if the time limit is reached."""
        return self.clock.share >= 1

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        """Create a scheduler with warm-up and linear fall to 0, over the steps or the clock's time."""
        scheduler: LambdaLR | None = self.lr_scheduler
        if scheduler is None:
            clock, warmup, last = self.clock, self._warmup, num_training_steps + 1
            scheduler = self.lr_scheduler = LambdaLR(
                self.optimizer if optimizer is None else optimizer,
                lambda step: rate_factor((step + 1) / last if not clock.leads else clock.share, warmup),
            )
            self._created_lr_scheduler = True
        return scheduler

    def training_step(self, model: nn.Module, inputs: list[Group], *_: Any, **__: Any) -> Tensor:
        """Make a backward pass for each group, as `backward_each`; return the mean loss over the step's places."""
        model.train()
        groups = [group for group in self._prepare_inputs(inputs) if len(group["labels"])]
        count = sum(len(group["labels"]) for group in groups)
        return self.backward_each(loss_of(model, group) / count for group in groups)

    def _prepare_inputs(self, inputs: list[Group]) -> list[Group]:
        return [{name: self._prepare_input(value) for name, value in group.items()} for group in inputs]

    def floating_point_ops(self, inputs: Any) -> int:
        """Return 0: floating-point operations are not counted."""
        return 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log tokens and passes over the corpus so far, and the tokens per second since the last record."""
        step = self.state.global_step
        if "loss" in logs:
            now, tokens = time.monotonic(), self.steps.order.tokens_before(step)
            logs = {**logs, "tokens": tokens}
            if self._last_log is not None and now > self._last_log[0]:
                logs["tokens_per_second"] = round((tokens - self._last_log[1]) / (now - self._last_log[0]), 1)
            logs["elapsed"] = round(self.clock.elapsed, 1)
            self._last_log = now, tokens
        if "train_runtime" in logs:  # the trainer's rates count steps as samples
            logs = {name: logs[name] for name in ("train_runtime", "train_loss")}
        # For the trainer the whole run is one epoch.
        trainer_epoch, self.state.epoch = self.state.epoch, round(self.steps.order.epochs_before(step), 4)
        try:
            super().log(logs, start_time)
        finally:
            self.state.epoch = trainer_epoch

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Return loss, perplexity and accuracy on the held-out places."""
        measured = measure(self.model, self._held_out, bf16=self.args.bf16)
        metrics = self.log_evaluation({f"eval_{name}": value for name, value in measured.items()})
        if self._last_log is not None:  # the time of the evaluation is not training time
            self._last_log = time.monotonic(), self._last_log[1]
        return metrics

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        super()._save(output_dir, state_dict)
        write_json(Path(output_dir or self.args.output_dir) / CLOCK_FILE, {"elapsed": self.clock.elapsed})

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        saved = json.loads((Path(checkpoint_path) / CLOCK_FILE).read_text(encoding="utf-8"))
        self.clock.set(saved["elapsed"])
