"""What a person sees while a run trains, and what a machine reads of it."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.errors import UserError
from holdfast.files import append_line, write_text
from holdfast.training.log import BEGUN, FAILED, STOPPED, TRAINED, read_log
from holdfast.training.process import this_process
from holdfast.training.record import RUN, digest_in
from holdfast.training.selection import METRIC


class TrainingProgress(TrainerCallback):
    """A bar with steps, sentences/s, loss, best score and ETA on a terminal; a line per log record elsewhere.

    Args:
        console: where to draw.
        batch_size: sentences per optimiser step, over all processes.
    """

    def __init__(self, console: Console, batch_size: int) -> None:
        self.console, self.batch_size = console, batch_size
        self._bar = Progress(
            TextColumn("training", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:.0f} sentences/s", markup=False),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("ETA", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("training", rate=0.0, note="", start=False)
        self._loss, self._best = "", ""
        self._began, self._first_step = 0.0, 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock."""
        if state.is_world_process_zero:
            self._began, self._first_step = time.monotonic(), state.global_step
            self._bar.start()
            self._bar.update(self._task, total=state.max_steps, completed=state.global_step)
            self._bar.start_task(self._task)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance."""
        if state.is_world_process_zero:
            self._bar.update(self._task, completed=state.global_step, rate=self._rate(state), note=self._note())

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the loss; without a terminal, print a line."""
        logs = kwargs["logs"]
        if not state.is_world_process_zero or "loss" not in logs:
            return
        self._loss = f"loss {logs['loss']:.4f}"
        if not self.console.is_terminal:
            left = (state.max_steps - state.global_step) * self.batch_size / max(self._rate(state), 1e-9)
            self.console.print(
                f"step {state.global_step}/{state.max_steps}  {self._note()}  {self._rate(state):.0f} sentences/s  "
                f"ETA {left / 60:.1f} min",
                highlight=False,
            )

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the score that checkpoints are selected by."""
        score = kwargs["metrics"].get(METRIC)
        if score is not None and state.is_world_process_zero:
            self._best = f"STS-B dev {score:.2f}"

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop drawing."""
        self.close()

    def close(self) -> None:
        """Stop drawing, also after an error."""
        self._bar.stop()

    def _rate(self, state: TrainerState) -> float:
        steps = int(state.global_step) - self._first_step
        return steps * self.batch_size / max(time.monotonic() - self._began, 1e-9)

    def _note(self) -> str:
        return "  ".join(text for text in (self._loss, self._best) if text)


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
        begun = {"step": self._step, "state": BEGUN, "max_steps": state.max_steps, "process": this_process()}
        run = digest_in(self.path.parent)
        self._append(begun if run is None else {**begun, RUN: run})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Remember where the run is."""
        if state.is_world_process_zero:
            self._step = int(state.global_step)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Append one record."""
        if state.is_world_process_zero:
            self._append({"step": state.global_step, **kwargs["logs"]})

    def _append(self, record: dict[str, Any]) -> None:
        """One record, with the time."""
        append_line(self.path, json.dumps({**record, "time": round(time.time(), 1)}))


def logging_steps(steps: float | None) -> int:
    """Steps between records: 25, fewer in a run so short that its curves would have less than ten points.

    Args:
        steps: of the whole run; None where that is not known beforehand.
    """
    return 25 if steps is None else min(25, max(1, int(steps) // 10))
