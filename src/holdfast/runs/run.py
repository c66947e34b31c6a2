"""The sequence that all resumable trainings share: begin or resume, train, export, write the result, clean up."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from rich.console import Console
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging

from holdfast.distributed import joined
from holdfast.errors import EndsRun, UserError
from holdfast.files import write_json
from holdfast.launch import is_first_process, processes
from holdfast.model_lookup import OPTION_CONTENTS, altered_files
from holdfast.models import saved_plainly
from holdfast.precision import Precision
from holdfast.results import environment, new_result, read_result, write_result
from holdfast.runs import run_folder
from holdfast.runs.checkpoints import (
    BEST_FOLDER,
    best_is_damaged,
    checkpoints,
    latest_intact,
    refuse_foreign_checkpoints,
    remove,
    step_of,
    why_unfit,
)
from holdfast.runs.resumable import Resumable
from holdfast.runs.run_log import METRICS_FILE, RESULT_FILE, RUN_FILE, read_log, seconds_of_parts
from holdfast.runs.run_record import (
    RUN,
    damage_in,
    differences,
    digest_in,
    digest_of,
    read_record,
    refuse_foreign,
    refuse_log_of_another,
    shown,
)
from holdfast.runs.stop_checkpoint import STOPPING, CheckpointAtStop
from holdfast.runs.training_progress import MetricsFile, TrainingProgress, logging_steps
from holdfast.stopping import DeferredStop

SAVE_STEPS = 500
"""Steps between checkpoints, unless they were given."""
_EVAL_FOLDER = "eval"  # sentence-transformers' trainer makes it for its own reports
# Either of them makes the folder a model, and is written last.
_MODEL_FILES = ("modules.json", "config.json")


class Run:
    """One training in its folder, which can be resumed at any point.

    A folder with other files, a loss that is not finite or a full disk ends it with a ``UserError``.

    Args:
        verb: command that makes such runs, such as "train".
        folder: folder of the run, and of the finished model.
        resume: resume the run in ``folder``, if there is one.
        save_steps: steps between checkpoints; None: `SAVE_STEPS`, and no checkpoint remains after success.
        console: console for progress; None: no output.
        command: words of the command, for the result; None: those of this process.
        result_file: path of the result; None: ``results.json`` in the folder.
        kept: names of subfolders for content that takes long, with notes in JSON on what is done: once there are notes,
            a failed run can be resumed.

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
        kept: tuple[str, ...] = (),
    ) -> None:
        self.verb, self.folder, self.resume, self.save_steps, self.command = verb, folder, resume, save_steps, command
        self.console = console or Console(quiet=True)
        self.result_file = result_file or folder / RESULT_FILE
        self._kept = kept
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
                if self.record and is_first_process() and not (checkpoints(self.folder) or self._worth_keeping()):
                    self._remove(BEST_FOLDER, _EVAL_FOLDER, run_folder.STAGING, *self._kept)
                    exported = any((self.folder / name).exists() for name in _MODEL_FILES)
                    for name in () if exported else (RUN_FILE, METRICS_FILE):  # with them, --resume can replace it
                        (self.folder / name).unlink(missing_ok=True)
                raise

    def finished(
        self,
        settings: Mapping[str, Any],
        *,
        precision: Precision = "auto",
        where_recorded: Collection[str] = (),
    ) -> dict[str, Any] | None:
        """Return the result if the run is finished already, else None.

        Args:
            settings: the part of the record that follows from the settings, without reading data.
            precision: the precision that was asked for; auto: any.
            where_recorded: names of entries that a record may lack: the data did not allow for them, or it is of an
                earlier version. They are compared where it has them.

        Raises:
            UserError: the folder is a file, holds other files, holds a run and ``resume`` is False, or holds another
                finished run; or a file in it belongs to another run.
        """
        # Without --resume only the first process checks: the others might see files that it has just written.
        if precision != "auto":
            settings = {**settings, "training": {**settings["training"], "precision": precision}}
        result = self._own_result(settings, where_recorded) if self.resume or is_first_process() else None
        if result is not None:
            self._remove(BEST_FOLDER, _EVAL_FOLDER)  # checkpoints may have been asked for
            corpus = result["protocol"].get("corpus")
            source = f", on {corpus['source']}" if isinstance(corpus, dict) and "source" in corpus else ""
            self.print(f"{self.folder} is finished already{source}: nothing to resume")
            return result
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        return None

    def _own_result(self, settings: Mapping[str, Any], where_recorded: Collection[str]) -> dict[str, Any] | None:
        folder = self.folder
        if not folder.exists():
            return None
        if not folder.is_dir():
            raise UserError(f"{folder} is a file; the model needs a folder: choose another --output")
        names = {path.name for path in folder.iterdir()} - {run_folder.LOCK_FILE}
        if not names:
            return None
        if RUN_FILE not in names:
            raise UserError(f"{folder} holds other files and no run of {self.verb}: choose an empty --output folder")
        if not self.resume:
            raise UserError(f"{folder} holds another run: continue it with --resume or choose another --output folder")
        if names.isdisjoint(_MODEL_FILES) or not self.result_file.exists():
            return None
        record = self._written_record()
        may_lack = {*where_recorded, OPTION_CONTENTS}  # records of earlier versions have no contents of options
        compared = {name: value for name, value in settings.items() if name in record or name not in may_lack}
        self._refuse_another(record, compared, partial=True)
        self._refuse_foreign_files()
        result = read_result(self.result_file)
        self._refuse_foreign_result(result, digest_of(record))
        return result

    def begin(self, record: Mapping[str, Any]) -> None:
        """Write the record, with the versions of the packages, or compare it and find the checkpoint to resume from.

        Raises:
            UserError: the folder holds another run (the message names the difference), or a file of another run.
        """
        record = {**record, "versions": environment()["packages"]}
        if is_first_process():
            if (self.folder / RUN_FILE).exists():
                self._refuse_another(self._written_record(), record)
                self._refuse_foreign_files()
                self.checkpoint = self._newest_checkpoint()
            else:
                write_json(self.folder / RUN_FILE, record)
        self.record = record
        if joined():
            dist.barrier()
            self.checkpoint, _ = latest_intact(self.folder) if self.resume else (None, [])

    def _newest_checkpoint(self) -> Path | None:
        """Return the checkpoint to resume from; remove newer ones that cannot be used."""
        if best_is_damaged(self.folder):
            self.print(f"{self.folder / BEST_FOLDER} is damaged: the run goes back to before its step")
        checkpoint, damaged = latest_intact(self.folder)
        for unfit in damaged:
            self.print(f"removing {unfit.name}: {why_unfit(unfit)}")
            remove(unfit)
        self.print(f"resuming from {checkpoint.name if checkpoint else 'the start'}")
        return checkpoint

    def _written_record(self) -> dict[str, Any]:
        try:
            return read_record(self.folder / RUN_FILE)
        except UserError as error:
            raise UserError(f"{error}; start a new run in another folder") from error

    def _refuse_another(self, before: dict[str, Any], now: Mapping[str, Any], *, partial: bool = False) -> None:
        for name, was, given in differences(before, json.loads(json.dumps(now)), partial=partial):
            raise UserError(f"cannot resume {self.folder}: {name} was {was!r} and is now {given!r}")

    def _refuse_foreign_files(self) -> None:
        """Refuse files of another run; report damage of the log, and files that name no run."""
        unnamed = [path.relative_to(self.folder).as_posix() for path in refuse_foreign_checkpoints(self.folder)]
        refuse_log_of_another(self.folder / METRICS_FILE, digest_in(self.folder))
        if unnamed:
            files = ", ".join(unnamed)
            self.print(f"{files} in {self.folder}: written by an earlier version, taken as files of this run")
        self.print(*damage_in(self.folder))

    def _refuse_foreign_result(self, result: dict[str, Any], run: str) -> None:
        """Refuse a result that does not belong to the run in the folder, and weights that the run did not write."""
        file, folder = self.result_file, self.folder
        if result["kind"] != self.verb:
            raise EndsRun(
                f"{file} is a result of {result['kind']}, and {folder} holds a run of {self.verb}: move it away"
            )
        refuse_foreign(file, result.get(RUN), run)
        for name in altered_files(folder, result["model_files"]):
            if name.endswith(".safetensors"):
                raise EndsRun(
                    f"{folder / name} was changed after run {shown(run)} wrote it, by the hash in {file}: restore it, "
                    "or choose another --output folder"
                )

    def arguments(self, *, on_cpu: bool, evaluate: bool, eval_steps: int, steps: float | None) -> dict[str, Any]:
        """Return those arguments of a ``TrainingArguments`` that all runs share; ``steps``: of the whole run."""
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
        """Train to the end inside ``context``, with progress, a log and further callbacks; return the seconds.

        They include those of the parts before a resumption, as far as this went on from them.

        A stop by signal waits for the end of the step, at which a checkpoint is written.
        """
        metrics = MetricsFile(self.folder / METRICS_FILE)
        stop = DeferredStop(lambda: self.print(STOPPING))
        # The processes of a group would have to agree on the step: there a stop is immediate.
        waiting = stop.waiting() if processes() == 1 else contextlib.nullcontext()
        trainer.remove_callback(PrinterCallback)
        for callback in (progress, metrics, *callbacks, CheckpointAtStop(stop)):
            trainer.add_callback(callback)
        log, step = read_log(metrics.path), 0 if self.checkpoint is None else step_of(self.checkpoint)
        before = seconds_of_parts(record for record in log if record["step"] <= step)
        began = time.monotonic()
        try:
            with metrics, context, waiting:
                trainer.train_from(self.checkpoint)
        finally:
            progress.stage.close()
        return before + time.monotonic() - began

    def export_transformer(self, model: Any, tokenizer: Any) -> None:
        """Export a Hugging Face model with its tokeniser."""

        def save(folder: Path) -> None:
            model.save_pretrained(folder)
            with saved_plainly(tokenizer):
                tokenizer.save_pretrained(folder)

        run_folder.export(self.folder, save, "config.json")

    def protocol(self) -> dict[str, Any]:
        """Return the record without the versions, for the result."""
        return {name: value for name, value in self.record.items() if name != "versions"}

    def finish(
        self,
        protocol: dict[str, Any],
        rows: list[dict[str, Any]],
        timing: dict[str, float],
        device: Any,
        **entries: Any,
    ) -> dict[str, Any]:
        """Write and return the result, with further entries, and remove files that only an unfinished run needs."""
        result = new_result(
            self.verb,
            command=self.command,
            model=str(self.folder),
            path=self.folder,
            protocol=protocol,
            seed=self.record["training"]["seed"],
            results=rows,
            timing=timing,
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

    def _worth_keeping(self) -> bool:
        return any(True for name in self._kept for _ in (self.folder / name).glob("*.json"))

    def _clear(self) -> None:
        """Remove files that only an unfinished run needs; checkpoints stay if ``save_steps`` was given."""
        self._remove(BEST_FOLDER, _EVAL_FOLDER)
        for checkpoint in checkpoints(self.folder) if self.save_steps is None else []:
            remove(checkpoint)

    def _remove(self, *folders: str) -> None:
        for name in folders:
            shutil.rmtree(self.folder / name, ignore_errors=True)
