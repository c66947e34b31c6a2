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
    if wanted.measured or wanted.gpu_memory is not None:
        trainings = [cell for cell in cells if cell.kind == "encoder"]
        memory = wanted.gpu_memory if wanted.gpu_memory is not None and wanted.gpu_count else _ANY_GPU
        for alike, found in measured_steps(trainings, setting, memory, console):
            for cell in alike:
                steps[cell.key] = found.gigabytes or 0.0
                if found.gigabytes is not None and not found.fits:
                    advice = f"encoder.mini_batch_size={found.fitting} does" if found.fitting else "not even a row does"
                    too_large[cell.key] = (
                        f"a step takes {found.gigabytes:,.1f} GB, which does not fit in {memory}: --set {advice}"
                        if found.fitting
                        else f"a step takes {found.gigabytes:,.1f} GB, which does not fit in {memory}; {advice}"
                    )
    for cell in cells:
        own = by_cell[cell.key]
        if own.measured:
            on_host = 0 if own.gpu_count else round(steps.get(cell.key, 0.0) * 1e9 / 2**20)
            by_cell[cell.key] = replace(own, measured=False, megabytes=_BESIDES + on_host)
    return by_cell, too_large
