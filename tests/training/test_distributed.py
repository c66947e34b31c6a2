"""Two processes equal one: the same gradients on the joined batch, the same weights after every step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("two_processes.py")


def launch(processes: int, arguments: list[str]) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"] if processes > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(SCRIPT), *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("method", "accumulate"), [("simcse", 2), ("robustembed", 1)])
def test_two_processes_equal_one(method: str, accumulate: int, tiny: Path, corpus: Path, tmp_path: Path) -> None:
    arguments = [str(tiny), str(corpus), str(tmp_path), method, str(accumulate)]
    launch(1, arguments)
    launch(2, arguments)
    one, two = (torch.load(tmp_path / f"gradients-{n}.pt", weights_only=True) for n in (1, 2))
    assert len(one) == len(two) == 3
    if accumulate > 1:
        # Contrastive batches are not split: each process holds half of every one, so accumulation adds the same terms.
        assert one[0].keys() == two[0].keys()
    for single, double in zip(one, two, strict=True):
        assert single.keys() == double.keys()
        assert any(name.startswith("head.") for name in single)
        for name, gradient in single.items():
            torch.testing.assert_close(double[name], gradient, rtol=1e-7, atol=1e-10)
    assert max(gradient.abs().max() for gradient in one[0].values()) > 1e-4
