"""Checkpoints and autocast shared by all trainers."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME

from holdfast.errors import EndsRun, UserError
from holdfast.files import one_line_write_errors
from holdfast.models import saved_plainly
from holdfast.runs.checkpoints import checkpoints, keep_newest, latest_intact, remove, seal


class Resumable:
    """Mixin for a ``transformers.Trainer``: sealed checkpoints, and one autocast region per step.

    It must come before the trainer in the bases. A complete checkpoint is sealed with hashes. A run can also be resumed
    from a checkpoint of its last step.

    Attributes:
        keep_checkpoints: number of checkpoints to keep while training.
    """

    keep_checkpoints: int = 2
    args: Any
    accelerator: Any
    state: Any

    def train_from(self, checkpoint: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint.

        From a checkpoint of the last step the inherited loop would make one step too many; here it makes none.
        """
        if checkpoint is None:
            self.train()  # type: ignore[attr-defined]
            return
        if self.args.should_save:  # the process may have been killed before an older checkpoint was removed
            keep_newest(Path(self.args.output_dir), self.keep_checkpoints)
        self.add_callback(_StepsOfThisRun())  # type: ignore[attr-defined]
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if state.global_step < state.max_steps:
            self.train(resume_from_checkpoint=str(checkpoint))  # type: ignore[attr-defined]
        else:
            self.state = state
            self._load_from_checkpoint(str(checkpoint))  # type: ignore[attr-defined]

    def compute_loss_context_manager(self) -> contextlib.ExitStack:
        """Open one autocast region for the whole loss, so that weights are cast once per step, not once per pass."""
        stack: contextlib.ExitStack = super().compute_loss_context_manager()  # type: ignore[misc]
        if self.args.bf16:
            stack.enter_context(torch.autocast(self.args.device.type, dtype=torch.bfloat16))
        return stack

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


class _StepsOfThisRun(TrainerCallback):
    """Callback that uses the save, evaluation and logging steps of this run, not those in the checkpoint."""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        state.compute_steps(args, state.max_steps)
