"""The sequence that all resumable trainings share: begin or resume, train, export, write the result, clean up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from rich.console import Console
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging

from holdfast import __version__
from holdfast.distributed import joined
from holdfast.errors import UserError
from holdfast.launch import is_first_process
from holdfast.models import saved_plainly
from holdfast.results import environment, new_result, write_result
from holdfast.runs import run_folder
from holdfast.runs.checkpoints import latest_intact
from holdfast.runs.resumable import Resumable
from holdfast.runs.run_log import METRICS_FILE, RESULT_FILE
from holdfast.runs.run_record import RUN, digest_of
from holdfast.runs.training_progress import MetricsFile, TrainingProgress, logging_steps

SAVE_STEPS = 500
"""Steps between checkpoints, unless they were given."""


class Run:
    """One training in its folder, which can be resumed at any point.

    Args:
        verb: command that makes such runs, such as "train".
        folder: folder of the run, and of the finished model.
        resume: resume the run in ``folder``, if there is one.
        save_steps: steps between checkpoints; None: `SAVE_STEPS`, and no checkpoint remains after success.
        console: console for progress; None: no output.
        command: words of the command, for the result; None: those of this process.
        result_file: path of the result; None: ``results.json`` in the folder.

    Attributes:
        record: content of ``run.json``, after `begin`.
        checkpoint: checkpoint to resume from, after `begin`; None: the training starts at step 0.
    """

    def __init__(
        self,
        verb: str,
        folder: Path,
        *,
        resume: bool,
        save_steps: int | None,
        console: Console | None,
        command: list[str] | None,
        result_file: Path | None = None,
    ) -> None:
        self.verb, self.folder, self.resume, self.save_steps, self.command = verb, folder, resume, save_steps, command
        self.console = console or Console(quiet=True)
        self.result_file = result_file or folder / RESULT_FILE
        self.record: dict[str, Any] = {}
        self.checkpoint: Path | None = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[Run]:
        """Lock the folder inside the block; a run that fails before its first checkpoint leaves no files.

        Raises:
            UserError: another run is working in the folder, or it cannot be written.
        """
        with run_folder.alone(self.folder):
            try:
                yield self
            except UserError:
                if self.record and is_first_process():
                    run_folder.forget_unless_resumable(self.folder)
                raise

    def finished(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result if the run is finished already, else None; see `run_folder.finished_run`.

        Args:
            settings: the part of the record that follows from the settings, without reading data.
        """
        result = None
        # Without --resume only the first process checks: the others might see files that it has just written.
        if self.resume or is_first_process():
            result = run_folder.finished_run(
                self.folder, self.result_file, self.verb, self.resume, settings, self.console
            )
        if result is not None:
            self._clear()
            self.print(f"{self.folder} is finished already: nothing to resume")
            return result
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        return None

    def begin(self, record: Mapping[str, Any]) -> None:
        """Write the record, with the versions of the packages, or compare it and find the checkpoint to resume from.

        Raises:
            UserError: the folder holds another run, or a file of another run.
        """
        record = {**record, "versions": {"holdfast": __version__, **environment()["packages"]}}
        if is_first_process():
            self.checkpoint = run_folder.begin(self.folder, record, self.console)
        self.record = record
        if joined():
            dist.barrier()
            self.checkpoint, _ = latest_intact(self.folder) if self.resume else (None, [])

    def arguments(self, *, on_cpu: bool, evaluate: bool, eval_steps: int, steps: float | None) -> dict[str, Any]:
        """Return those arguments of a ``TrainingArguments`` that all runs share.

        Args:
            on_cpu: train on the CPU.
            evaluate: evaluate during the training.
            eval_steps: steps between evaluations.
            steps: optimiser steps of the run; None: unknown.
        """
        training = self.record["training"]
        return {
            "output_dir": str(self.folder),
            "learning_rate": training["learning_rate"],
            "optim": "adamw_torch_fused",
            "bf16": training["precision"] == "bf16",
            "use_cpu": on_cpu,
            "seed": training["seed"],
            "eval_strategy": "steps" if evaluate else "no",
            "eval_steps": eval_steps,
            "save_strategy": "steps",
            "save_steps": self.save_steps or SAVE_STEPS,
            "logging_steps": logging_steps(steps),
            "logging_nan_inf_filter": False,  # a loss that is not finite stops the run
            "disable_tqdm": True,
        }

    def train(
        self,
        trainer: Resumable,
        progress: TrainingProgress,
        callbacks: Iterable[TrainerCallback],
        context: contextlib.AbstractContextManager[None],
    ) -> float:
        """Train to the end, with progress and a log, and return the seconds.

        Args:
            trainer: the trainer.
            progress: the progress display.
            callbacks: further callbacks.
            context: open during the training, after the log.
        """
        metrics = MetricsFile(self.folder / METRICS_FILE)
        trainer.remove_callback(PrinterCallback)
        for callback in (progress, metrics, *callbacks):
            trainer.add_callback(callback)
        began = time.monotonic()
        try:
            with metrics, context:
                trainer.train_from(self.checkpoint)
        finally:
            progress.stage.close()
        return time.monotonic() - began

    def export(self, save: Callable[[Path], None], last: str) -> None:
        """Let ``save`` write the model, then move it into the folder, the file ``last`` at the end."""
        run_folder.export(self.folder, save, last)

    def export_transformer(self, model: Any, tokenizer: Any) -> None:
        """Export a Hugging Face model with its tokeniser."""

        def save(folder: Path) -> None:
            model.save_pretrained(folder)
            with saved_plainly(tokenizer):
                tokenizer.save_pretrained(folder)

        self.export(save, "config.json")

    def protocol(self) -> dict[str, Any]:
        """Return the record without the versions, for the result."""
        return {name: value for name, value in self.record.items() if name != "versions"}

    def finish(
        self,
        *,
        protocol: Mapping[str, Any],
        results: list[dict[str, Any]],
        timing: Mapping[str, float],
        device: Any,
        entries: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write the result, remove what only an unfinished run needs, and return the result.

        Args:
            protocol: as for `new_result`.
            results: rows, as for `new_result`.
            timing: seconds by name.
            device: device of the training.
            entries: further entries of the result.
        """
        result = new_result(
            self.verb,
            command=self.command,
            model=str(self.folder),
            path=self.folder,
            protocol=dict(protocol),
            seed=self.record["training"]["seed"],
            results=results,
            timing=dict(timing),
            device=str(device),
        )
        result |= {**entries, RUN: digest_of(self.record)}
        write_result(self.result_file, result)
        self._clear()
        return result

    def print(self, *lines: str | None) -> None:
        """Print each line that is not empty, without markup."""
        for line in filter(None, lines):
            self.console.print(line, highlight=False, markup=False)

    def _clear(self) -> None:
        run_folder.clear(self.folder, keep_checkpoints=self.save_steps is not None)
