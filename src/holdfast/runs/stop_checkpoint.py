"""The checkpoint that a stop by signal writes at the end of the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.runs.checkpoints import mark_stop
from holdfast.stopping import DeferredStop

STOPPING = "stopping: a checkpoint is written at the end of this step; a second signal stops at once"


class CheckpointAtStop(TrainerCallback):
    """Callback that has a checkpoint written once a stop was requested, and then stops; it must be the last one.

    Args:
        stop: the stop that may be requested.
    """

    def __init__(self, stop: DeferredStop) -> None:
        self._stop = stop
        self._due = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Request a checkpoint of this step; an evaluation that is due comes before it."""
        self._due = control.should_save
        control.should_save |= self._stop.requested is not None

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Request a checkpoint, if the signal came during the evaluation."""
        control.should_save |= self._stop.requested is not None

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop, now that the checkpoint is sealed."""
        if self._stop.requested is None:
            return
        if not self._due:
            mark_stop(Path(str(args.output_dir)) / f"checkpoint-{state.global_step}")
        self._stop.end()
