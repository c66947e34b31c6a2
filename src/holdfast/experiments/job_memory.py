"""The memory of jobs that train: measured before they are submitted, so that none waits for a GPU that is too small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.experiments.cell_memory import measured_steps
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell
from holdfast.experiments.job_options import JobOptions

if TYPE_CHECKING:
    from rich.console import Console

_ANY_GPU = "999999GB"
"""A memory into which each step fits, where only its size is asked for."""
_BESIDES = 8 * 1024
"""Megabytes of a job besides its step: Python, torch, CUDA's libraries on the host, and the data. An assumption."""


def with_measured_memory(
    cells: Sequence[Cell], options: Mapping[str, JobOptions], setting: Setting, console: Console | None = None
) -> tuple[dict[str, JobOptions], dict[str, str]]:
    """Return the options of each cell's job, and the reason for each training that does not fit its GPU, by key.

    With ``mem=auto``, a job without a GPU gets the memory of its training's step and 8 GB, any other job 8 GB. With
    ``gpu-memory``, a training whose step is larger is not submitted.
    """
    by_cell = {cell.key: options[cell.kind] for cell in cells}
    too_large: dict[str, str] = {}
    wanted = options["encoder"]
    steps: dict[str, float] = {}
    limit = wanted.gpu_memory if wanted.gpu_count else None
    if limit is not None or (wanted.measured and not wanted.gpu_count):
        trainings = [cell for cell in cells if cell.kind == "encoder"]
        for alike, found in measured_steps(trainings, setting, limit or _ANY_GPU, console):
            steps |= {cell.key: found.gigabytes or 0.0 for cell in alike}
            if found.gigabytes is not None and not found.fits:
                advice = "; not even a row does"
                if found.fitting:
                    advice = f": --set encoder.mini_batch_size={found.fitting} does"
                reason = f"a step takes {found.gigabytes:,.1f} GB, which does not fit in {limit or _ANY_GPU}{advice}"
                too_large |= {cell.key: reason for cell in alike}
    for cell in cells:
        own = by_cell[cell.key]
        if own.measured:
            on_host = 0 if own.gpu_count else round(steps.get(cell.key, 0.0) * 1e9 / 2**20)
            by_cell[cell.key] = replace(own, measured=False, megabytes=_BESIDES + on_host)
    return by_cell, too_large
