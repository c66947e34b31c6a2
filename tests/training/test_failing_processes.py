"""Where one of several processes fails, all end, and one line says why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.error_lines import fail, one_line

SCRIPT = Path(__file__).with_name("fail_on_one.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raises", "process 1 of 2: the disk of this machine is full"),
        # Whichever comes first: the lost connection, or the launcher's signal.
        ("dies", "(another process of this run ended .*|stopped; )continue with --resume"),
    ],
)
def test_one_that_fails_ends_all(how: str, message: str, tiny: Path, corpus: Path, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(SCRIPT), how]
    words = ["train", "simcse", "--model", str(tiny), "--corpus", str(corpus), "--output", str(tmp_path / "out")]
    done = subprocess.run(
        [*launcher, *words, "--max-steps", "20", "--batch-size", "8", "--selection", "last"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("holdfast: ")]
    assert len(lines) == 1, done.stderr
    assert re.fullmatch(f"holdfast: {message}", lines[0])
    assert "RuntimeError" not in done.stderr, "the others' lost connection is no fault of theirs"
    assert not (tmp_path / "out" / "modules.json").exists()


def test_before_they_meet_one_process_of_each_machine_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "16")
    heard = []
    for number in range(16):
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("LOCAL_RANK", str(number % 8))
        fail("there is no such file")
        heard.append(capsys.readouterr().err)
    assert [number for number, line in enumerate(heard) if line] == [0, 8]
    assert heard[0] == "holdfast: there is no such file\n"
    assert heard[8] == "holdfast: process 8 of 16: there is no such file\n"


def test_a_lost_connection_is_a_line_in_a_run_of_several_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("[pair.cc:547] Connection closed by peer [127.0.0.1]:4242")
    assert one_line(error) is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "another process of this run ended" in (one_line(error) or "")
    assert one_line(RuntimeError("a fault of ours")) is None
