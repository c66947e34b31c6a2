"""`holdfast watch`: once, as JSON, and following a run to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.cli.watch import sparkline
from holdfast.runs.run_process import this_process


def write(folder: Path, *log: dict[str, Any], **result: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"method": "robustembed", "options": {"radius": 0.005}}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in log))
    if result:
        (folder / "results.json").write_text(json.dumps({"kind": "train", **result}))
    return folder


def logged(step: int, **more: Any) -> dict[str, Any]:
    values = {"loss": 1.0 / step, "robust": 0.9 / step, "attack_loss_rise": 0.5, "delta_norm": 0.004}
    return {"step": step, "time": 1e9 + step, **values, **more}


BEGUN = {"step": 0, "time": 1e9, "state": "begun", "max_steps": 100, "process": this_process()}


def test_once_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "run", BEGUN, logged(10), {"step": 10, "eval_stsb_dev_spearman": 71.25}, logged(20))
    assert main(["watch", str(run), str(tmp_path / "none"), "--once"]) == 0
    message = capsys.readouterr()
    assert message.err == ""
    for wanted in (
        *("step 20/100 (20 %)", "running", "  robust", "0.045", "attack's rise of the loss", "80 % of its ball's"),
        *("best 71.25 at step 10", "█▁", "✓ attack", "no run here yet"),
    ):
        assert wanted in message.out, wanted


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "run", BEGUN, logged(10), {"step": 10, "eval_x_accuracy": 50.0}, logged(20))
    assert main(["watch", str(run), "--once", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert (found["folder"], found["state"], found["step"], found["terms"]) == (str(run), "running", 20, ["robust"])
    assert found["curves"]["robust"] == [[10, 0.09], [20, 0.045]]
    assert found["score"] == {"name": "eval_x_accuracy", "latest": 50.0, "best": 50.0, "best_step": 10}
    assert {flag["what"]: flag["level"] for flag in found["flags"]}["attack"] == "good"


def test_it_follows_a_run_until_it_ends(tmp_path: Path) -> None:
    """A process of its own, as no terminal is: a line for each change, the half-written one not among them."""
    run = tmp_path / "run"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    words = [sys.executable, "-m", "holdfast", "watch", str(run), "--every", "0.2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as watching:
        assert watching.stdout is not None
        assert "no run here yet" in watching.stdout.readline()
        write(run, BEGUN, logged(10))
        assert "step 10/100 (10 %)" in watching.stdout.readline()
        with (run / "metrics.jsonl").open("a") as log:
            log.write(json.dumps(logged(20)) + "\n" + '{"step": 30, "loss": ')
        assert "step 20/100 (20 %)" in watching.stdout.readline()
        write(run, BEGUN, logged(10), logged(20), {"step": 20, "state": "failed", "why": "a full [disk]"})
        assert "failed at step 20: a full [disk]" in watching.stdout.readline()
        assert watching.wait(30) == 0


def test_a_look_loads_no_torch(tmp_path: Path) -> None:
    code = "import sys; from holdfast.cli import main; main(['watch', 'run', '--once']); print('torch' in sys.modules)"
    message = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert message.stdout.splitlines()[-1] == "False"


def test_a_look_too_often_and_a_file_are_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for words in (["--every", "0"], ["--every", "nan"], ["--every", "inf"], ["--once", str(tmp_path / "file")]):
        assert main(["watch", str(tmp_path), *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_what_a_log_holds_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "run", BEGUN, logged(10, **{"\x1b[2Jwild [bold]": 0.5}))
    assert main(["watch", str(run), "--once"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "wild [bold]" in out


def test_sparklines() -> None:
    assert sparkline([(1, 5.0)]) == ""
    assert sparkline([(1, 0.0), (2, 1.0)]) == "▁█"
    assert sparkline([(1, 3.0), (2, 3.0)]) == "▅▅"
    assert sparkline([(n, float(n)) for n in range(16)], width=8) == "▁▂▃▄▅▆▇█"
