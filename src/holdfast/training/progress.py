"""What a person sees while a run trains, and what a machine reads of it."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.errors import UserError
from holdfast.files import telling_write_errors, write_text
from holdfast.progress import Stage, digits
from holdfast.training.log import BEGUN, FAILED, STOPPED, TRAINED, read_log
from holdfast.training.process import this_process
from holdfast.training.selection import METRIC


class TrainingStage(Stage):
    """Steps of a training: sentences a second, the loss, the best score and the time left.

    Args:
        console: where it is shown.
        batch_size: sentences per optimiser step, over all processes.
    """

    def __init__(self, console: Console, batch_size: int) -> None:
        super().__init__(console, "training", unit="steps")
        self.batch_size = batch_size

    def rate(self) -> str:
        """Return the sentences a second."""
        made = self.done - self.first
        return f"{digits(made * self.batch_size / self.elapsed)} sentences/s" if made > 0 else ""


class TrainingProgress(TrainerCallback):
    """Shows a training: a bar on a terminal; elsewhere a line per log record, and in between every few seconds.

    Args:
        console: where to draw.
        batch_size: sentences per optimiser step, over all processes.
    """

    def __init__(self, console: Console, batch_size: int) -> None:
        self.console = console
        self.stage: Stage = TrainingStage(console, batch_size)
        self._loss, self._best, self._doing = "", "", ""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock."""
        if state.is_world_process_zero:
            self.stage.restart(total=state.max_steps, first=state.global_step)
            self.stage.open()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance, and say what comes before the next step: it may take longer than many of them."""
        if state.is_world_process_zero:
            doing = ("measuring", control.should_evaluate), ("saving", control.should_save)
            self._doing = ", ".join(name for name, comes in doing if comes)
            self.stage.update(state.global_step, note=self._note())

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Forget what was done between the steps."""
        if self._doing:
            self._doing, self.stage.note = "", self._note()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the loss; without a terminal, print a line."""
        logs = kwargs["logs"]
        if not state.is_world_process_zero or "loss" not in logs:
            return
        self._loss = f"loss {logs['loss']:.4f}"
        self.stage.note = self._note()
        if not self.console.is_terminal:
            self.stage.tell()

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the score that checkpoints are selected by."""
        score = self.score_of(kwargs["metrics"])
        if score is not None and state.is_world_process_zero:
            self._best, self._doing = score, ""
            self.stage.note = self._note()

    def score_of(self, metrics: dict[str, float]) -> str | None:
        """Return the score among the metrics of an evaluation, in words; None: it has none."""
        return f"STS-B dev {metrics[METRIC]:.2f}" if METRIC in metrics else None

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop drawing."""
        self.close()

    def close(self) -> None:
        """Stop drawing, also after an error."""
        self.stage.close()

    def _note(self) -> str:
        return "  ".join(text for text in (self._loss, self._best, self._doing) if text)


class MetricsFile(TrainerCallback):
    """Appends every log record to ``OUTPUT/metrics.jsonl``, one JSON object a line, as it comes.

    What the records hold is told in :mod:`holdfast.training.log`. A resumed run first drops those after the step it
    resumes from, so that no step is told twice. As a context around the training it also writes how that ended; a
    process that is killed writes nothing, and whoever reads the file finds that the process is gone.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._step: int | None = None  # of the last record; None: nothing begun, or not this process's to tell

    def __enter__(self) -> MetricsFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._step is None:
            return
        ended: dict[str, Any] = {"step": self._step, "state": TRAINED}
        if isinstance(error, KeyboardInterrupt):
            ended["state"] = STOPPED
        elif error is not None:
            ended |= {"state": FAILED, "why": (str(error).splitlines() or [""])[0] or type(error).__name__}
        with contextlib.suppress(UserError):  # a full disk has an error of its own, which this one must not hide
            self._append(ended)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Drop what the resumed run will tell again, and tell that it begins, in which process, up to which step."""
        if not state.is_world_process_zero:
            return
        if self.path.exists():
            kept = [record for record in read_log(self.path) if record["step"] <= state.global_step]
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in kept))
        self._step = int(state.global_step)
        self._append({"step": self._step, "state": BEGUN, "max_steps": state.max_steps, "process": this_process()})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Remember where the run is."""
        if state.is_world_process_zero:
            self._step = int(state.global_step)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Append one record."""
        if state.is_world_process_zero:
            self._append({"step": state.global_step, **kwargs["logs"]})

    def _append(self, record: dict[str, Any]) -> None:
        """One record, with the time; the file is closed at once, so that what is in it outlives the process."""
        with telling_write_errors(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**record, "time": round(time.time(), 1)}) + "\n")


def logging_steps(steps: float | None) -> int:
    """Steps between records: 25, fewer in a run so short that its curves would have less than ten points.

    Args:
        steps: of the whole run; None where that is not known beforehand.
    """
    return 25 if steps is None else min(25, max(1, int(steps) // 10))
