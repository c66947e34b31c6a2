"""A handful of what `kills.py` and `fuzz.py` do by the hundred."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(name: str, *words: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_broken_runs_end_as_unbroken_ones() -> None:
    message = run(
        "kills.py", "--kills", "4", "--stops", "2", "--full", "2", "--seed", "7", "--jobs", "train,attack,evaluate"
    )
    assert "nothing was lost, nothing was damaged" in message


@pytest.mark.slow
def test_damaged_files_are_values_or_one_line() -> None:
    message = run("fuzz.py", "--inputs", "600", "--seed", "11")
    assert "600 inputs" in message
    assert "no traceback, no hang, no memory without end" in message
