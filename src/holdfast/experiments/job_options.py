"""Options of the jobs that make cells on a cluster: what ``--slurm`` sets, for all of them or for those of a kind."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.experiments.cells import REVISIONS
from holdfast.experiments.reproduce_settings import CANCEL, LEAVE, ReproduceSettings
from holdfast.settings import refuse_given
from holdfast.training.training_plan import memory_of

SLURM, LOCAL = "slurm", "local"
EXECUTORS = (SLURM, LOCAL)

AUTO = "auto"
"""The value of ``mem`` with which the memory of a training is measured."""

_MINUTES = 240
"""Limit of a job that has none: a job that reaches it continues from its checkpoint, so it can be short."""

_OURS = ("time", "gpus", "cpus", "mem", "gpu-memory", "setup")
_INSTEAD = {
    "gpus-per-node": "gpus",
    "gpus-per-task": "gpus",
    "cpus-per-task": "cpus",
    "cpus-per-gpu": "cpus",
}
_FIXED = tuple(
    "array chdir dependency error input job-name nodes no-requeue ntasks ntasks-per-node open-mode output parsable "
    "requeue signal test-only wait wrap".split()
)
"""Options of sbatch that holdfast or submitit sets."""
_OF_SBATCH = tuple(
    "account acctg-freq batch bb bbf begin bell burst-buffer cluster-constraint clusters comment constraint "
    "container contiguous core-spec cores-per-socket cpu-freq deadline delay-boot distribution exclude exclusive "
    "export extra-node-info get-user-env gid gpu-bind gpu-freq gpus-per-socket gres hint hold kill-on-invalid-dep "
    "licenses mail-type mail-user mcs-label mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill "
    "nodefile nodelist ntasks-per-core ntasks-per-gpu ntasks-per-socket overcommit oversubscribe partition power "
    "prefer priority profile propagate qos quiet reboot reservation sockets-per-node spread-job switches "
    "thread-spec threads-per-core time-min tmp tres-per-task use-min-nodes wckey".split()
)
"""The other options of sbatch, to tell a wrong spelling before anything is submitted."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_GPUS = re.compile(r"[01]|[A-Za-z][\w.-]*:1")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_MEGABYTES = {"K": 1 / 1024, "M": 1, "": 1, "G": 1024, "T": 1024**2}
_TIMES = (
    (r"(\d+)", (1,)),
    (r"(\d+):(\d\d):(\d\d)", (60, 1, 1 / 60)),
    (r"(\d+)-(\d\d?)(?::(\d\d))?(?::(\d\d))?", (1440, 60, 1, 1 / 60)),
)


@dataclass(frozen=True)
class JobOptions:
    """The options of a job.

    Attributes:
        minutes: time after which the cluster stops it; None: 4 hours on Slurm, no limit on this machine.
        gpus: "0", "1", or "TYPE:1".
        cpus: number of cores; None: what the cluster gives.
        megabytes: main memory; None: what the cluster gives.
        measured: whether the memory of trainings is measured (``mem=auto``).
        gpu_memory: memory of the GPUs, such as "24GB", against which each training is measured; None: it is not.
        setup: a line of shell before the job, such as ``module load cuda``.
        others: further options of sbatch, by name; "true" for those without a value.
    """

    minutes: int | None = None
    gpus: str = "1"
    cpus: int | None = None
    megabytes: int | None = None
    measured: bool = False
    gpu_memory: str | None = None
    setup: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def limit(self) -> int:
        """Minutes after which Slurm stops the job."""
        return self.minutes or _MINUTES

    @property
    def gpu_count(self) -> int:
        """Number of GPUs of the job."""
        return 0 if self.gpus == "0" and "gpu" not in self.others.get("gres", "") else 1

    def for_sbatch(self) -> dict[str, str]:
        """Return the options of sbatch by name, as they are shown in a plan."""
        found = {"time": str(self.limit)}
        if "gres" not in self.others and self.gpus != "0":
            found["gpus-per-node"] = self.gpus
        if self.cpus is not None:
            found["cpus-per-task"] = str(self.cpus)
        if self.megabytes is not None:
            found["mem"] = f"{self.megabytes}M"
        return {**found, **self.others}

    def words(self) -> str:
        """Return the options as words of sbatch's command line."""
        return " ".join(f"--{name}" if value == "true" else f"--{name}={value}" for name, value in self.shown().items())

    def shown(self) -> dict[str, str]:
        """Return the options of sbatch for a plan, in which measured memory is not known yet."""
        found = self.for_sbatch()
        return {**found, "mem": "(measured)"} if self.measured else found


def check_jobs(settings: ReproduceSettings) -> None:
    """Refuse wrong options of jobs, before anything is read.

    Raises:
        UserError: an option is wrong, or given without ``executor``.
    """
    if settings.executor is None:
        refuse_given(settings, ("slurm", "on_stop", "retries"), "is for --executor: give both, or leave it out")
        return
    one_of("--executor", settings.executor, EXECUTORS)
    one_of("--on-stop", settings.on_stop, (LEAVE, CANCEL))
    job_options(settings.slurm)


def job_options(words: Sequence[str]) -> dict[str, JobOptions]:
    """Return the options of the jobs of each kind of cell.

    Args:
        words: ``"NAME=VALUE"`` for all jobs or ``"KIND.NAME=VALUE"`` for those of a kind, which wins. The names are
            time, gpus, cpus, mem, gpu-memory and setup; any other is an option of sbatch.

    Raises:
        UserError: a word is no such text, a name is wrong or given twice, or a value does not fit.
    """
    given: dict[tuple[str, str], str] = {}
    for word in words:
        whole, equals, value = (part.strip() for part in word.partition("="))
        kind, dot, name = whole.rpartition(".")
        name = name.replace("_", "-")
        if not equals or not _NAME.fullmatch(name) or not value:
            raise UserError(f"--slurm takes NAME=VALUE or KIND.NAME=VALUE, such as encoder.time=8:00:00, not {word!r}")
        if not value.isprintable():
            raise UserError(f"--slurm {whole}: the value has a character that is not printable: {value!r}")
        if dot and kind not in REVISIONS:
            raise UserError(
                f"--slurm {whole}: there is no kind of cells {kind!r}{did_you_mean(kind, REVISIONS)}: "
                f"it is one of {', '.join(REVISIONS)}"
            )
        _check_name(whole, name)
        if (kind, name) in given:
            raise UserError(f"--slurm {whole} is given twice: leave one out")
        given[kind, name] = value
    found = {}
    for kind in REVISIONS:
        options = JobOptions()
        for of in ("", kind):
            for (its_kind, name), value in given.items():
                if its_kind == of:
                    options = _with(options, f"--slurm {of + '.' if of else ''}{name}", name, value)
        found[kind] = options
    return found


def _check_name(whole: str, name: str) -> None:
    """Refuse options that are set otherwise, and those that are nearly the name of another one."""
    if name in _INSTEAD:
        raise UserError(f"--slurm {whole}: use {_INSTEAD[name]}, of which the job's other settings are made")
    if name in _FIXED:
        raise UserError(f"--slurm {whole}: holdfast sets this option of sbatch itself: leave it out")
    known = (*_OURS, *_OF_SBATCH)
    if name not in known and (close := difflib.get_close_matches(name, known, n=1, cutoff=0.8)):
        raise UserError(f"--slurm {whole}: there is no {name!r} (did you mean {close[0]!r}?)")


def _with(options: JobOptions, where: str, name: str, value: str) -> JobOptions:
    """Return options with one more."""
    if name == "time":
        return replace(options, minutes=_minutes(where, value))
    if name == "gpus":
        if not _GPUS.fullmatch(value):
            raise UserError(f"{where} takes 0, 1 or TYPE:1, since a cell uses at most one GPU, not {value!r}")
        return replace(options, gpus="0" if value == "0" else value)
    if name == "cpus":
        if not value.isascii() or not value.isdigit() or not 1 <= int(value[:6]) <= 1024:
            raise UserError(f"{where} takes a number of cores, from 1 to 1024, not {value!r}")
        return replace(options, cpus=int(value))
    if name == "mem":
        measured = value == AUTO
        return replace(options, measured=measured, megabytes=None if measured else _megabytes(where, value))
    if name == "gpu-memory":
        try:
            memory_of(value)
        except UserError as error:
            raise UserError(f"{where} takes a memory such as 16GB, not {value!r}") from error
        return replace(options, gpu_memory=value)
    if name == "setup":
        return replace(options, setup=value)
    return replace(options, others={**options.others, name: value})


def _minutes(where: str, text: str) -> int:
    """Return the minutes of a time in one of sbatch's formats, rounded up."""
    for pattern, units in _TIMES:
        if found := re.fullmatch(pattern, text, re.ASCII):
            minutes = sum(int(part or 0) * unit for part, unit in zip(found.groups(), units, strict=True))
            if 1 <= minutes <= 366 * 1440:
                return -int(-minutes // 1)
    raise UserError(f"{where} takes minutes (90), H:MM:SS (8:00:00) or DAYS-HOURS (1-12), up to a year, not {text!r}")


def _megabytes(where: str, text: str) -> int:
    found = _MEMORY.fullmatch(text)
    megabytes = float(found[1]) * _MEGABYTES[found[2].upper()] if found else 0.0
    if not 1 <= megabytes <= 1024**3:
        raise UserError(f"{where} takes a memory such as 16GB, not {text!r}")
    return round(megabytes)
