"""A run killed at any point and resumed ends in the same bits as an unbroken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.files import sha256
from warm import WarmPython

DIE = Path(__file__).with_name("die.py")


@pytest.mark.slow
def test_killed_runs_end_in_the_same_bits(
    corpus: Path, tmp_path: Path, write_lines: Callable[[Path, int, int], Path], warm: WarmPython
) -> None:
    held_out = write_lines(tmp_path / "held-out.txt", 30, 1)
    given = [str(corpus), str(held_out)]
    unbroken, output = tmp_path / "unbroken", tmp_path / "killed"
    finished = warm.run(DIE, *given, str(unbroken), "never")
    assert finished.returncode == 0, finished.stderr
    for point in ("step-16", "saving-18", "exporting"):
        killed = warm.run(DIE, *given, str(output), point)
        assert killed.returncode == -9, killed.stderr
        assert not (output / "config.json").exists(), "a killed run must not look finished"
    resumed = warm.run(DIE, *given, str(output), "never")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "checkpoint-30/model.safetensors", "checkpoint-30/optimizer.pt"):
        assert sha256(output / name) == sha256(unbroken / name), name
    rows, made = (
        [json.loads((folder / "results.json").read_text())[key] for folder in (unbroken, output)]
        for key in ("results", "made")
    )
    assert rows[0] == rows[1]
    assert made[0]["steps"] == made[1]["steps"] == 30
    assert made[0]["tokens"] == made[1]["tokens"]
    message = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    measured = [record["step"] for record in message if "eval_perplexity" in record]
    assert measured == [7, 14, 21, 28, 30], "a step measured twice must be told once"
