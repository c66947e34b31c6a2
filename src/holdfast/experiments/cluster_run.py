"""Work on cells by jobs: each is submitted once its inputs are finished, watched, and submitted again if it died."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import EndsRun
from holdfast.experiments.cell_job import BEGAN, ENDS_RUN, IN_USE, MADE, NOT_MADE, CellJob
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.durations import time_left
from holdfast.experiments.job_engines import Engine, Local, Slurm
from holdfast.experiments.job_memory import with_measured_memory
from holdfast.experiments.job_options import LOCAL, SLURM, JobOptions, job_options
from holdfast.experiments.parallel import WAIT, devices_here, ready
from holdfast.experiments.reproduce_settings import LEAVE, ReproduceSettings
from holdfast.files import read_object, write_json
from holdfast.progress import stage

if TYPE_CHECKING:
    from rich.console import Console

FOLDER = "jobs"
"""The folder of the jobs' files, in the output."""

_STATES = 30.0
"""Seconds between two questions to the cluster; results are seen at once, by their files."""
_IN_USE = 60.0
"""Seconds after which a cell that another run was making is submitted."""
_VISIBLE = 30.0
"""Seconds after which a file that a job has written must be seen here: network disks remember what was not there."""
_LOST = ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "TIMEOUT", "UNKNOWN")
"""States in which a job that has not begun with its cell is submitted again; otherwise it could not start."""


@dataclass
class _Running:
    """A job of a cell."""

    cell: Cell
    job: Any


def engine_of(settings: ReproduceSettings, cells: int) -> Engine:
    """Return where the jobs of a reproduction run.

    Raises:
        UserError: submitit is not installed, or there is no Slurm here.
    """
    if settings.executor == SLURM:
        return Slurm(settings.output / FOLDER, retries=settings.retries, most=settings.jobs or max(1, cells))
    most = settings.jobs or devices_here()
    return Local(settings.output / FOLDER, retries=settings.retries, most=most)


def make_by_jobs(
    todo: Sequence[Cell],
    store: Store,
    setting: Setting,
    settings: ReproduceSettings,
    *,
    console: Console,
    command: list[str],
) -> dict[str, str]:
    """Make cells, each in a job, and return the reason for each that could not be made.

    Jobs that an earlier call left running are picked up. When this is stopped, its jobs go on or are cancelled, as
    ``settings.on_stop`` says. In ``todo``, each cell comes after its inputs.

    Raises:
        UserError: jobs cannot be submitted here, or one ended with a mistake that ends the whole run (`EndsRun`).
    """
    if not todo:
        return {}
    options = job_options(settings.slurm)
    engine = engine_of(settings, len(todo))
    by_cell, failed = with_measured_memory(todo, options, setting, console)
    run = _Jobs(engine, store, setting, settings, by_cell, console, command)
    return run.make(todo, failed)


class _Jobs:
    """The jobs of a call."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        setting: Setting,
        settings: ReproduceSettings,
        options: dict[str, JobOptions],
        console: Console,
        command: list[str],
    ) -> None:
        self._engine, self._store, self._setting, self._settings = engine, store, setting, settings
        self._options, self._console, self._command = options, console, command
        self._running: list[_Running] = []
        self._waiting: list[Cell] = []
        self._died: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._asked = 0.0

    def make(self, todo: Sequence[Cell], failed: dict[str, str]) -> dict[str, str]:
        """Make the cells, apart from those that have failed already."""
        self._waiting = [cell for cell in todo if cell.key not in failed]
        self._pick_up()
        try:
            with stage(self._console, "making cells", unit="cells", total=len(todo)) as making:
                while self._waiting or self._running:
                    self._submit(failed)
                    making.update(len(todo) - len(self._waiting) - len(self._running), note=self._note())
                    if self._running or self._waiting:
                        self._watch(failed)
        except BaseException as error:
            self._stop(error)
            raise
        return failed

    # --- submission ------------------------------------------------------------------------------------------------

    def _pick_up(self) -> None:
        """Take over the jobs that an earlier call left running here."""
        for cell in list(self._waiting):
            record = read_object(self._record(cell))
            number, died = record.get("job"), record.get("died")
            if not isinstance(number, str) or not isinstance(died, int):
                continue
            job = self._engine.known(number)
            if job is not None and self._is_lost(cell, job):
                self._record(cell).unlink(missing_ok=True)
            elif job is not None:
                self._waiting.remove(cell)
                self._died[cell.key] = died
                self._running.append(_Running(cell, job))
                self._print(f"{cell.kind}: {cell.label}: job {number} goes on")

    def _is_lost(self, cell: Cell, job: Any) -> bool:
        """Return True if a job made a cell whose model, or result, was removed since."""
        ended = job.paths.result_pickle.exists() and job.exception() is None
        removed = not self._store.finished(cell) or self._store.model_removed(cell)
        return bool(ended and job.result()[0] == MADE and removed)

    def _submit(self, failed: dict[str, str]) -> None:
        """Submit what is ready, in groups with equal options, and no more at once than was asked for."""
        groups: list[tuple[str, JobOptions, list[Cell]]] = []
        for cell in self._due(failed):
            options = self._options[cell.key]
            group = next((each for each in groups if each[:2] == (cell.kind, options)), None)
            if group is None:
                groups.append((cell.kind, options, [cell]))
            else:
                group[2].append(cell)
        for kind, options, cells in groups:
            work = [self._work(cell, options) for cell in cells]
            for cell, job in zip(cells, self._engine.submit(work, options, f"holdfast-{kind}"), strict=True):
                self._waiting.remove(cell)
                self._running.append(_Running(cell, job))
                write_json(self._record(cell), {"cell": cell.key, "job": job.job_id, "died": self._died_of(cell)})
                self._print(f"{cell.kind}: {cell.label}: job {job.job_id}")

    def _due(self, failed: dict[str, str]) -> list[Cell]:
        """Return the cells to submit now; those that another run has made in the meantime no longer wait."""
        free = max(0, self._engine.most - len(self._running))
        while True:
            now, running = time.monotonic(), [each.cell for each in self._running]
            open_ = ready(self._waiting, running, failed)
            due = [cell for cell in open_ if self._not_before.get(cell.key, 0.0) <= now][:free]
            made = [cell for cell in due if self._store.usable(cell)]
            if not made:
                return due
            self._waiting = [cell for cell in self._waiting if cell not in made]

    def _work(self, cell: Cell, options: JobOptions) -> CellJob:
        import torch

        store, local = Store(self._store.folder.absolute()), self._engine.name == LOCAL
        threads = options.cpus
        if local and threads is None:
            threads = max(1, torch.get_num_threads() // self._engine.most)
        return CellJob(cell, store, self._setting, self._command, self._engine.most if local else 1, threads)

    def _died_of(self, cell: Cell) -> int:
        """Return how often jobs of the cell have died."""
        return self._died.get(cell.key, 0)

    def _record(self, cell: Cell) -> Path:
        return self._engine.folder / f"{self._store.place(cell).name}.json"

    # --- watching --------------------------------------------------------------------------------------------------

    def _watch(self, failed: dict[str, str]) -> None:
        """Record the outcomes of the jobs that have ended; if none has, wait a little."""
        now = time.monotonic()
        if now - self._asked >= _STATES:
            self._engine.refresh([each.job for each in self._running])
            self._asked = now
        ended = [each for each in self._running if self._engine.ended(each.job)]
        for each in ended:
            self._running.remove(each)
            self._end(each, failed)
        if not ended:
            time.sleep(WAIT)

    def _end(self, each: _Running, failed: dict[str, str]) -> None:
        """Record what became of a job that has ended."""
        cell, job = each.cell, each.job
        outcome, reason = self._outcome(each)
        if outcome == IN_USE:
            self._not_before[cell.key] = time.monotonic() + _IN_USE
            self._waiting.append(cell)
            self._print(f"left for later: {reason}")
        elif outcome == _AGAIN:
            died = self._died[cell.key] = self._died_of(cell) + 1
            self._waiting.insert(0, cell)
            self._print(f"{reason}: submitted again, {died} of {self._settings.retries} ({cell.kind}: {cell.label})")
        else:
            self._record(cell).unlink(missing_ok=True)
            if outcome == ENDS_RUN:
                raise EndsRun(f"job {job.job_id} ({cell.kind}: {cell.label}): {reason}")
            if outcome != MADE:
                failed[cell.key] = reason
            left = time_left([*self._waiting, *(other.cell for other in self._running)], self._store, self._engine.most)
            made = "made" if outcome == MADE else f"not made: {reason}"
            self._print(f"{made} ({cell.kind}: {cell.label}), {len(self._waiting)} more wait{left}")

    def _outcome(self, each: _Running) -> tuple[str, str]:
        """Return what became of the cell of a job that has ended, and why if it was not made."""
        job = each.job
        where = f"its log: {job.paths.stderr}"
        if _appears(job.paths.result_pickle.exists):
            error = job.exception()
            if error is not None:
                message = _last_line(str(error))
                if "timed-out too many times" in message:
                    more = f"--slurm {each.cell.kind}.time=… gives more"
                    message = f"its time ended {self._settings.retries + 1} times; {more}"
                return NOT_MADE, f"job {job.job_id} failed: {message}; {where}"
            outcome, reason = job.result()
            if outcome == MADE and not _appears(lambda: self._store.finished(each.cell)):
                return NOT_MADE, f"job {job.job_id} made it, but {self._store.place(each.cell)} is not seen here"
            return str(outcome), str(reason)
        state = self._engine.state(job)
        died = f"job {job.job_id} ended without a result (state {state}): {_last_line(job.stderr() or '')}; {where}"
        if state.startswith("OUT_OF_ME"):
            return NOT_MADE, f"{died}; --slurm {each.cell.kind}.mem=… gives it more memory"
        began = job.paths.stdout.exists() and BEGAN in job.paths.stdout.read_text(errors="replace")
        if (
            state.startswith("CANCELLED")
            or self._died_of(each.cell) >= self._settings.retries
            or not (began or state in _LOST)
        ):
            return NOT_MADE, died
        return _AGAIN, died

    # --- the end of a call that was stopped --------------------------------------------------------------------------

    def _stop(self, error: BaseException) -> None:
        """Leave the running jobs or cancel them."""
        if not self._running:
            return
        numbers = " ".join(each.job.job_id for each in self._running)
        if self._settings.on_stop == LEAVE:
            self._print(f"{len(self._running)} jobs go on, and the same command picks them up: {numbers}")
        else:
            self._engine.cancel([each.job for each in self._running])
            for each in self._running:
                self._record(each.cell).unlink(missing_ok=True)
            self._print(f"{len(self._running)} jobs are cancelled; the same command continues their work: {numbers}")

    def _note(self) -> str:
        return f"{len(self._running)} jobs"

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)


_AGAIN = "again"


def _appears(there: Callable[[], bool]) -> bool:
    """Return True as soon as what a job has written is seen here; False if it is not seen within some seconds."""
    until = time.monotonic() + _VISIBLE
    while not there():
        if time.monotonic() >= until:
            return False
        time.sleep(WAIT)
    return True


def _last_line(text: str) -> str:
    """Return the last line of a log that says something: of a traceback, the error."""
    lines = [line.strip() for line in text.splitlines()]
    message = [line for line in lines if line and not line.startswith(("---", "You can check", "- /", "srun: "))]
    return message[-1][:300] if message else "nothing in its log"
