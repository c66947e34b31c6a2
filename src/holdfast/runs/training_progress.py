"""Progress of a training: display on the console, and the log file ``metrics.jsonl``."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.errors import UserError
from holdfast.files import append_line, write_text
from holdfast.progress import Stage, digits
from holdfast.runs.run_log import BEGUN, FAILED, STOPPED, TRAINED, read_log
from holdfast.runs.run_process import this_process
from holdfast.runs.run_record import RUN, digest_in


class TrainingStage(Stage):
    """Progress bar of a training: sentences per second, loss, score and time left.

    Args:
        console: console to draw on.
        batch_size: sentences per optimiser step, over all processes.
    """

    def __init__(self, console: Console, batch_size: int) -> None:
        super().__init__(console, "training", unit="steps")
        self.batch_size = batch_size

    def rate(self) -> str:
        """Return the sentences per second, as text."""
        steps = self.done - self.first
        return f"{digits(steps * self.batch_size / self.elapsed)} sentences/s" if steps > 0 else ""


class TrainingProgress(TrainerCallback):
    """Callback that shows a training: a bar on a terminal, else a line per log record and every few seconds.

    Args:
        stage: the progress bar.
        score: returns the score among the metrics of an evaluation, as text.
        print_scores: print a line after each evaluation too, without a terminal.
    """

    def __init__(self, stage: Stage, score: Callable[[dict[str, float]], str], *, print_scores: bool = False) -> None:
        self.stage, self.score, self.print_scores = stage, score, print_scores
        self._loss, self._best, self._doing = "", "", ""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock."""
        if state.is_world_process_zero:
            self.stage.restart(total=state.max_steps, first=state.global_step)
            self.stage.open()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance, and show what comes before the next step: measuring or saving may take long."""
        if state.is_world_process_zero:
            doing = ("measuring", control.should_evaluate), ("saving", control.should_save)
            self._doing = ", ".join(name for name, comes in doing if comes)
            self.stage.update(state.global_step, note=self._note())

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Clear the note on what was done between the steps."""
        if self._doing:
            self._doing, self.stage.note = "", self._note()

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the loss; without a terminal, print a line."""
        logs = kwargs["logs"]
        if state.is_world_process_zero and "loss" in logs:
            self._loss = f"loss {logs['loss']:.4f}"
            self._show_note(print_line=True)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the score."""
        if state.is_world_process_zero:
            self._best, self._doing = self.score(kwargs["metrics"]), ""
            self._show_note(print_line=self.print_scores)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop drawing."""
        self.stage.close()

    def _show_note(self, *, print_line: bool) -> None:
        self.stage.note = self._note()
        if print_line and not self.stage.console.is_terminal:
            self.stage.print_line()

    def _note(self) -> str:
        return "  ".join(text for text in (self._loss, self._best, self._doing) if text)


class MetricsFile(TrainerCallback):
    """Callback that appends every log record to ``OUTPUT/metrics.jsonl``, one JSON object per line.

    The records are described in :mod:`holdfast.runs.run_log`. A resumed run first removes the records after the step
    it resumes from, so that no step occurs twice. As a context manager around the training it also writes how the
    training ended; a killed process writes nothing, but a reader can detect that the process is gone.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._step: int | None = None  # of the last record; None: not begun, or not the first process

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
        with contextlib.suppress(UserError):  # the original error, such as a full disk, must not be hidden
            self._append(ended)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Drop the records that the resumed run will repeat; write its begin, its process and its last step."""
        if not state.is_world_process_zero:
            return
        if self.path.exists():
            kept = [record for record in read_log(self.path) if record["step"] <= state.global_step]
            write_text(self.path, "".join(json.dumps(record) + "\n" for record in kept))
        self._step = int(state.global_step)
        begun = {"step": self._step, "state": BEGUN, "max_steps": state.max_steps, "process": this_process()}
        run = digest_in(self.path.parent)
        self._append(begun if run is None else {**begun, RUN: run})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Remember the current step."""
        if state.is_world_process_zero:
            self._step = int(state.global_step)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Append one record."""
        if state.is_world_process_zero:
            self._append({"step": state.global_step, **kwargs["logs"]})

    def _append(self, record: dict[str, Any]) -> None:
        """Append one record, with the time."""
        append_line(self.path, json.dumps({**record, "time": round(time.time(), 1)}))


def logging_steps(steps: float | None) -> int:
    """Return the steps between log records: 25, or fewer in a short run of ``steps``, so that it has at least ten."""
    return 25 if steps is None else min(25, max(1, int(steps) // 10))
