"""The common part of all trainers: sealed checkpoints, autocast, hooks, and the check of the loss."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME

from holdfast.errors import EndsRun, UserError
from holdfast.files import one_line_write_errors
from holdfast.models import saved_plainly
from holdfast.runs.checkpoints import checkpoints, keep_newest, latest_intact, remove, seal


class Resumable:
    """Mixin for a ``transformers.Trainer``: sealed checkpoints, one autocast region per step, and hooks.

    It must come before the trainer in the bases. A complete checkpoint is sealed with hashes. A run can also be resumed
    from a checkpoint of its last step. A loss that is not finite stops the run before the weights are updated.

    Attributes:
        keep_checkpoints: number of checkpoints to keep while training.
    """

    keep_checkpoints: int = 2
    add_callback: Callable[[TrainerCallback], None]
    remove_callback: Callable[[type[TrainerCallback]], None]
    args: Any
    accelerator: Any
    callback_handler: Any
    control: Any
    state: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_callback(_Hooks(self))

    # --- hooks ------------------------------------------------------------------------------------------------------

    def begin_training(self) -> None:
        """Prepare for the first step of this process, after a checkpoint was loaded."""

    def begin_epoch(self, epoch: int) -> None:
        """Prepare for an epoch."""

    def follow(self) -> None:
        """Update the state that follows the optimiser; called once after each of its steps."""

    def is_over(self) -> bool:
        """Return True if the training ends after the current step."""
        return False

    def diagnostics(self) -> dict[str, Tensor]:
        """Return the scalars of the last step that are logged with the loss."""
        return {}

    # --- training ---------------------------------------------------------------------------------------------------

    def train_from(self, checkpoint: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint.

        From a checkpoint of the last step the inherited loop would make one step too many; here it makes none.
        """
        if checkpoint is None:
            self.train()  # type: ignore[attr-defined]
            return
        if self.args.should_save:  # the process may have been killed before an older checkpoint was removed
            keep_newest(Path(self.args.output_dir), self.keep_checkpoints)
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if state.global_step < state.max_steps:
            self.train(resume_from_checkpoint=str(checkpoint))  # type: ignore[attr-defined]
        else:
            self.state = state
            self._load_from_checkpoint(str(checkpoint))  # type: ignore[attr-defined]

    def backward_each(self, losses: Iterator[Tensor]) -> Tensor:
        """Call backward on each loss of a step before the next is computed; return their detached sum.

        Raises:
            UserError: the sum is not finite; the optimiser step is not made.
        """
        total = torch.zeros((), device=self.args.device)
        while True:
            with self.compute_loss_context_manager():
                loss = next(losses, None)
            if loss is None:
                break
            self.accelerator.backward(loss)
            total += loss.detach()
        self.check_finite(total)  # once for all losses, since the check waits for the device
        return total

    def compute_loss_context_manager(self) -> contextlib.ExitStack:
        """Open one autocast region for the whole loss, so that weights are cast once per step, not once per pass."""
        stack: contextlib.ExitStack = super().compute_loss_context_manager()  # type: ignore[misc]
        if self.args.bf16:
            stack.enter_context(torch.autocast(self.args.device.type, dtype=torch.bfloat16))
        return stack

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the diagnostics of the last step together with the loss."""
        if "loss" in logs:
            logs = {**logs, **{name: value.item() for name, value in self.diagnostics().items()}}
        super().log(logs, start_time)  # type: ignore[misc]

    def log_evaluation(self, metrics: dict[str, float]) -> dict[str, float]:
        """Log the metrics of an evaluation, notify the callbacks, and return the metrics."""
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def check_finite(self, loss: Tensor, name: str = "the loss") -> None:
        """Stop the run if the loss of a step is not finite, before the weights are updated.

        Raises:
            UserError: it is not finite.
        """
        if not torch.isfinite(loss):
            raise UserError(
                f"{name} became {loss.item()} at step {self.state.global_step + 1}; {self._last_good()}; "
                "try a lower --learning-rate"
            )

    def loader(self, dataset: Any, batches: BatchSampler, collate: Callable[[list[Any]], Any]) -> DataLoader[Any]:
        """Return a prepared loader of the training's batches."""
        pinned = self.args.device.type != "cpu"
        loader: DataLoader[Any] = DataLoader(dataset, batch_sampler=batches, collate_fn=collate, pin_memory=pinned)
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _maybe_log_save_evaluate(self, *given: Any, **named: Any) -> None:
        """Do as inherited; if a file cannot be written, the error message names the last good checkpoint."""
        try:
            super()._maybe_log_save_evaluate(*given, **named)  # type: ignore[misc]
        except EndsRun as error:
            raise EndsRun(f"{error}; {self._last_good()}; continue with --resume") from error

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            with one_line_write_errors(checkpoint), saved_plainly(getattr(self, "processing_class", None)):
                super()._save_checkpoint(model, trial)  # type: ignore[misc]
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                seal(checkpoint)
                keep_newest(folder, self.keep_checkpoints)
        except UserError:
            remove(checkpoint)
            raise

    def _last_good(self) -> str:
        if not checkpoints(Path(self.args.output_dir)):
            return "no checkpoint was written yet"
        newest, _ = latest_intact(Path(self.args.output_dir))
        return f"last good checkpoint: {newest}" if newest else "no good checkpoint exists"


class _Hooks(TrainerCallback):
    """Callback that calls the hooks of a trainer."""

    def __init__(self, trainer: Resumable) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        # The steps between saves, evaluations and log records are those of this run, not those in the checkpoint.
        state.compute_steps(args, state.max_steps)
        self.trainer.begin_training()

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.trainer.begin_epoch(int(state.epoch or 0))

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.trainer.follow()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.trainer.is_over():
            control.should_training_stop = True
