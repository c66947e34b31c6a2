"""Engines that run jobs, by submitit: a Slurm cluster, or processes of this machine that outlive the command."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import EndsRun, NotInstalled, UserError, first_line
from holdfast.experiments.cell_job import CellJob
from holdfast.experiments.job_options import LOCAL, SLURM, JobOptions
from holdfast.files import write_text

_ARRAY = 500
"""Jobs of an array at most: clusters allow a thousand or more (``MaxArraySize``)."""
_NO_LIMIT = 366 * 1440
_NOTICE = 120
"""Seconds before the end of its time at which a job is told: a training ends its step and writes a checkpoint."""


def submitit() -> Any:
    """Return the library, whose own log is silenced.

    Raises:
        UserError: it is not installed.
    """
    try:
        import submitit as library
    except ImportError as error:
        raise NotInstalled("--executor needs submitit: pip install 'holdfast[cluster]'") from error
    logging.getLogger("submitit").setLevel(logging.CRITICAL)
    return library


class Engine(ABC):
    """A place where jobs run.

    Args:
        folder: the folder of the jobs of all places; the jobs of this one have a folder in it.
        retries: how often a job that reaches its time limit is queued again.
        most: jobs at the same time.

    Attributes:
        folder: the folder of the jobs' files, which all its machines see.
    """

    name: str

    def __init__(self, folder: Path, *, retries: int, most: int) -> None:
        self.library = submitit()
        self.folder = folder.absolute() / f"{self.name}-{self.place()}"
        self.retries, self.most = retries, most

    @property
    def _logs(self) -> Path:
        """The folder of what submitit writes: the number of a job begins the names of its files."""
        return self.folder / "logs"

    @abstractmethod
    def place(self) -> str:
        """Return the name of the cluster or machine: only there its jobs are known."""

    @abstractmethod
    def submit(self, work: Sequence[CellJob], options: JobOptions, name: str) -> list[Any]:
        """Submit jobs with equal options; return them as submitit's.

        Raises:
            UserError: they are refused.
        """

    @abstractmethod
    def known(self, job: str) -> Any | None:
        """Return a job of an earlier call by its number; None if it has ended without a result."""

    @abstractmethod
    def refresh(self, jobs: Sequence[Any]) -> None:
        """Ask for the state of jobs."""

    @abstractmethod
    def ended(self, job: Any) -> bool:
        """Return True if a job has a result, or ended without one, as far as is known since `refresh`."""

    @abstractmethod
    def state(self, job: Any) -> str:
        """Return the state of a job in capitals, as far as is known since `refresh`."""

    @abstractmethod
    def cancel(self, jobs: Sequence[Any]) -> None:
        """Stop jobs; they write a checkpoint first."""


class Slurm(Engine):
    """The Slurm cluster on whose login node the command runs."""

    name = SLURM

    def __init__(self, folder: Path, *, retries: int, most: int) -> None:
        missing = [command for command in ("sbatch", "srun", "scancel") if shutil.which(command) is None]
        if missing:
            raise UserError(
                f"--executor slurm: there is no {missing[0]} here: run the command where jobs are submitted, such as "
                "the cluster's login node, or give --executor local or --jobs"
            )
        super().__init__(folder, retries=retries, most=most)
        self._gone: set[str] = set()
        self._accounts: bool | None = None

    def place(self) -> str:
        """Return the name of the cluster, by ``scontrol``, or else of this machine."""
        for line in _output("scontrol", "show", "config").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "ClusterName" and value.strip():
                return value.strip()
        return socket.gethostname()

    def submit(self, work: Sequence[CellJob], options: JobOptions, name: str) -> list[Any]:
        """Submit jobs with ``sbatch``, as one array if there are several."""
        executor = self.library.SlurmExecutor(self._logs, max_num_timeout=self.retries)
        given = options.for_sbatch()
        extra: dict[str, Any] = {key: True if value == "true" else value for key, value in options.others.items()}
        extra |= {key: given[key] for key in ("gpus-per-node", "mem") if key in given}
        executor.update_parameters(
            job_name=name,
            time=options.limit,
            cpus_per_task=options.cpus,
            # Since Slurm 22.05, srun does not take over the cores that sbatch was given.
            srun_args=None if options.cpus is None else [f"--cpus-per-task={options.cpus}"],
            setup=None if options.setup is None else [options.setup],
            signal_delay_s=_NOTICE,
            array_parallelism=self.most,
            additional_parameters=extra,
        )
        jobs: list[Any] = []
        for start in range(0, len(work), _ARRAY):
            try:
                jobs += executor.submit_array(work[start : start + _ARRAY])
            except (RuntimeError, subprocess.SubprocessError, OSError) as error:
                message = " ".join(str(error).split()) or first_line(error)
                raise EndsRun(f"sbatch refused a job ({options.words()}): {message}") from error
        return jobs

    def known(self, job: str) -> Any | None:
        """Return a job of an earlier call."""
        found = self.library.SlurmJob(folder=self._logs, job_id=job, tasks=[0])
        self.refresh([found])
        return None if self.ended(found) and not found.paths.result_pickle.exists() else found

    def refresh(self, jobs: Sequence[Any]) -> None:
        """Ask ``sacct`` for the state of all jobs, and ``squeue`` for those that it does not know.

        Clusters without accounting have no ``sacct``, and a preempted job is either queued again or gone.
        """
        if not jobs:
            return
        if self._accounts is None:
            self._accounts = _succeeds("sacct", "--noheader", "--jobs", jobs[0].job_id)
        if self._accounts:
            jobs[0].get_info(mode="force")  # of all jobs that submitit knows
        doubtful = [job for job in jobs if self.state(job) in ("UNKNOWN", "PREEMPTED")]
        if doubtful:
            queued = _queued(sorted({job.job_id.partition("_")[0] for job in doubtful}))
            if queued is not None:
                self._gone |= {job.job_id for job in doubtful if job.job_id not in queued}

    def ended(self, job: Any) -> bool:
        """Return True if a job has ended."""
        return bool(
            job.paths.result_pickle.exists()
            or job.job_id in self._gone
            or job.watcher.is_done(job.job_id, mode="cache")
        )

    def state(self, job: Any) -> str:
        """Return the state by ``sacct``; UNKNOWN without it."""
        return str(job.watcher.get_state(job.job_id, mode="cache")).upper()

    def cancel(self, jobs: Sequence[Any]) -> None:
        """Cancel jobs with ``scancel``."""
        _output("scancel", *(job.job_id for job in jobs))


class Local(Engine):
    """Jobs as processes of this machine, as many at once as there are GPUs, or one."""

    name = LOCAL

    def __init__(self, folder: Path, *, retries: int, most: int) -> None:
        super().__init__(folder, retries=retries, most=most)
        self._gpu_of: dict[str, int] = {}

    def place(self) -> str:
        """Return the name of this machine."""
        return socket.gethostname()

    def submit(self, work: Sequence[CellJob], options: JobOptions, name: str) -> list[Any]:
        """Start a process for each job, with a GPU of its own where there are some."""
        executor = self.library.LocalExecutor(self._logs, max_num_timeout=self.retries)
        jobs = []
        for one in work:
            gpu = self._free_gpu() if options.gpu_count else None
            executor.update_parameters(
                timeout_min=options.minutes or _NO_LIMIT,
                signal_delay_s=min(_NOTICE, 30 * (options.minutes or _NO_LIMIT)),
                gpus_per_node=0 if gpu is None else 1,
                visible_gpus=[] if gpu is None else [gpu],
                setup=[] if options.setup is None else [options.setup],
            )
            with _signals_ignored():
                job = executor.submit(one)
            if gpu is not None:
                self._gpu_of[job.job_id] = gpu
                write_text(self._gpu_file(job.job_id), str(gpu))  # for a later call of the command
            jobs.append(job)
        return jobs

    def _free_gpu(self) -> int | None:
        import torch

        count = torch.cuda.device_count()
        used = list(self._gpu_of.values())
        return min(range(count), key=used.count) if count else None

    def known(self, job: str) -> Any | None:
        """Return a job of an earlier call, whose process may still run."""
        process = _Process(int(job)) if job.isdigit() else None
        found = self.library.LocalJob(folder=self._logs, job_id=job, process=process)
        if not self.ended(found):
            with contextlib.suppress(OSError, ValueError):
                self._gpu_of[job] = int(self._gpu_file(job).read_text(encoding="utf-8"))
            return found
        return found if found.paths.result_pickle.exists() else None

    def _gpu_file(self, job: str) -> Path:
        return self._logs / f"{job}.gpu"

    def refresh(self, jobs: Sequence[Any]) -> None:
        """Do nothing: the state of a process is always known."""

    def ended(self, job: Any) -> bool:
        """Return True if the process has ended."""
        ended = bool(job.done())
        if ended:
            self._gpu_of.pop(job.job_id, None)
        return ended

    def state(self, job: Any) -> str:
        """Return the state of the process."""
        return str(job.state).upper()

    def cancel(self, jobs: Sequence[Any]) -> None:
        """Terminate processes: they were started with Ctrl-C ignored, which submitit would send."""
        for job in jobs:
            with contextlib.suppress(OSError):
                os.kill(int(job.job_id), signal.SIGTERM)


class _Process:
    """A process of submitit that an earlier call started, in place of its ``Popen``."""

    def __init__(self, number: int) -> None:
        self._number = number

    def poll(self) -> int | None:
        """Return None while it runs; else 0, since its return code is not known."""
        command = _output("ps", "-o", "command=", "-p", str(self._number))
        return None if "submitit.local._local" in command else 0


@contextlib.contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and the end of the terminal inside the block, and so in the processes that are started in it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _queued(numbers: Sequence[str]) -> set[str] | None:
    """Return the jobs that ``squeue`` lists; None if it cannot be asked."""
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--jobs={','.join(numbers)}"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    if asked.returncode != 0 and "Invalid job id" not in asked.stderr:
        return None
    return set(asked.stdout.split())


def _output(*command: str) -> str:
    """Return the output of a command; "" if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
