"""The plan of jobs: what would be submitted, with which options, and the hours that this may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell
from holdfast.experiments.durations import Durations, sort_name
from holdfast.experiments.job_memory import with_measured_memory
from holdfast.experiments.job_options import SLURM, JobOptions, job_options
from holdfast.experiments.reproduce_settings import ReproduceSettings

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class PlannedJobs:
    """Jobs of one sort of cells with equal options.

    Attributes:
        kind: as :class:`~holdfast.experiments.cells.Cell` has it.
        what: the method, task or attack.
        jobs: number of jobs.
        options: their options, as words of sbatch.
        seconds: estimated time of all of them, from finished cells; None if no such cell is finished.
        gpu_hours: this time in hours, times the GPUs of a job; None as for ``seconds``.
        parts: how many times a job runs until its cell is made, because of its time limit; None as for ``seconds``.
        refused: why they are not submitted; "": they are.
    """

    kind: str
    what: str
    jobs: int
    options: str
    seconds: float | None
    gpu_hours: float | None
    parts: int | None
    refused: str = ""


def planned_jobs(
    cells: Sequence[Cell],
    settings: ReproduceSettings,
    setting: Setting,
    durations: Durations,
    console: Console | None = None,
) -> list[PlannedJobs]:
    """Plan the jobs of the cells that are left, by sort and options, inputs first; nothing is submitted.

    The memory of trainings is measured if an option says so.

    Raises:
        UserError: an option of jobs is wrong.
    """
    by_cell, refused = with_measured_memory(cells, job_options(settings.slurm), setting, console)
    groups: dict[tuple[str, str, str, str], list[Cell]] = {}
    for cell in cells:
        options = by_cell[cell.key].words() if settings.executor == SLURM else ""
        what = sort_name(cell.kind, cell.settings)
        groups.setdefault((cell.kind, what, options, refused.get(cell.key, "")), []).append(cell)
    return [
        _planned(kind, what, options, reason, members, by_cell[members[0].key], settings, durations)
        for (kind, what, options, reason), members in groups.items()
    ]


def _planned(
    kind: str,
    what: str,
    words: str,
    reason: str,
    members: Sequence[Cell],
    options: JobOptions,
    settings: ReproduceSettings,
    durations: Durations,
) -> PlannedJobs:
    seconds = durations.of(members)
    if seconds is None:
        return PlannedJobs(kind, what, len(members), words, None, None, None, reason)
    limit = 60.0 * options.limit if settings.executor == SLURM or options.minutes else float("inf")
    longest = max(durations.of([cell]) or 0.0 for cell in members)
    parts = 1 + int(longest / limit)
    return PlannedJobs(kind, what, len(members), words, seconds, seconds / 3600.0 * options.gpu_count, parts, reason)
