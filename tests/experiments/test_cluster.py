"""Cells in jobs of their own: real processes of this machine, started by submitit."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_table import TABLE, values

from holdfast.experiments import cluster_run
from holdfast.experiments.cells import CELL_FILE
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce

submitit = pytest.importorskip("submitit", reason="submitit is not installed: pip install 'holdfast[cluster]'")

Settings = Callable[..., ReproduceSettings]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead job's result is not waited for as on a network disk."""
    monkeypatch.setattr(submitit.LocalJob, "_results_timeout_s", 0)
    monkeypatch.setattr(cluster_run, "WAIT", 0.2)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def run(settings: ReproduceSettings) -> tuple[dict[str, Any], str]:
    """The result, and what was printed."""
    output = io.StringIO()
    result = reproduce(settings, console=Console(file=output, width=400))
    return result, output.getvalue()


@pytest.mark.slow
def test_jobs_make_the_cells_that_this_process_makes(settings: Settings, made: list[str], tmp_path: Path) -> None:
    whole = reproduce(settings())
    made.clear()
    result, said = run(settings(output=tmp_path / "jobs", executor="local", jobs=2))
    assert made == []  # in other processes
    assert values(result) == values(whole)
    print(said)
    print(os.listdir(tmp_path / "jobs"), os.listdir(next((tmp_path / "jobs" / "jobs").iterdir())))
    assert 0
