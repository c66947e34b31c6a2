"""A run killed at any point and resumed ends in the same bits as an unbroken one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.files import sha256
from holdfast.objectives import METHODS
from warm import WarmPython

DIE = Path(__file__).with_name("die.py")


# Between two checkpoints in epoch 2; a checkpoint written but not sealed; after an evaluation in epoch 3; at the end.
KILLS = {"robustembed": ("step-11", "saving-16", "best-18"), "simcse": ("exporting",)}
OTHERS = ("step-11",)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_killed_runs_end_in_the_same_bits(
    method: str, tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, warm: WarmPython
) -> None:
    given = [str(tiny), str(corpus), str(labelled)]
    unbroken, output = tmp_path / "unbroken", tmp_path / "killed"
    finished = warm.run(DIE, *given, str(unbroken), method, "never")
    assert finished.returncode == 0, finished.stderr
    for point in KILLS.get(method, OTHERS):
        killed = warm.run(DIE, *given, str(output), method, point)
        assert killed.returncode == -9, killed.stderr
        assert not (output / "modules.json").exists(), "a killed run must not look finished"
    resumed = warm.run(DIE, *given, str(output), method, "never")
    assert resumed.returncode == 0, resumed.stderr
    last = "checkpoint-20"
    for name in ("model.safetensors", f"{last}/model.safetensors", f"{last}/objective.safetensors"):
        assert sha256(output / name) == sha256(unbroken / name), name
    selected = [json.loads((folder / "results.json").read_text())["selected"] for folder in (unbroken, output)]
    assert selected[0] == selected[1]
    assert selected[0]["steps"] == 20
    steps = [json.loads(line)["step"] for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps.count(3) == 1, "a step evaluated twice must be told once"
