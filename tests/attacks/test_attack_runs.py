"""Attacks that are killed, and attacks by several processes: the same result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_attacks import ATTACK, content, mistake

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.journal import journals
from holdfast.cli import main
from holdfast.errors import UserError


def run(here: Path, words: list[str], **variables: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.Popen(command, cwd=here, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_result(here: Path) -> None:
    whole = [*ATTACK, "--side-by-side", "2"]
    assert main([*whole, "--output", "whole.json"]) == 0
    for attempt in range(3):
        child = run(here, [*whole, "--output", "parts.json", "--resume"])
        for _ in range(600):
            written = sum(path.read_bytes().count(b"\n") for path in journals(here / "parts.json"))
            if written > 8 * (attempt + 1) or child.poll() is not None:
                break
            time.sleep(0.05)
        assert child.poll() is None, child.communicate()[1].decode()[-2000:]
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert not (here / "parts.json").exists()
    assert main([*whole, "--output", "parts.json", "--resume"]) == 0
    assert content(here / "parts.json") == content(here / "whole.json")


@pytest.mark.slow
def test_several_processes_give_the_same_result(here: Path) -> None:
    assert main([*ATTACK, "--output", "one.json"]) == 0
    child = run(here, [*ATTACK, "--output", "three.json", "--processes", "3"])
    assert child.communicate(timeout=300)[1] is not None
    assert child.returncode == 0
    # As a launcher does it.
    launched = [run(here, [*ATTACK, "--output", "two.json"], RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    for process in launched:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert content(here / "one.json") == content(here / "three.json") == content(here / "two.json")
    assert not list(journals(here / "three.json"))


def test_processes_that_nobody_starts_are_not_waited_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = AttackSettings("model", recipes=["pwws"], task="textfooler/mnli", output=here / "r.json", processes=2)
    with pytest.raises(UserError, match="start this script with torchrun"):
        attack(given)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert "leave out --processes" in mistake(capsys, [*ATTACK, "--output", "r.json", "--processes", "2"])


def test_a_process_attacks_its_share_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([*ATTACK, "--output", "r.json"]) == 0
    (journal,) = journals(here / "r.json")
    rows = [json.loads(line)["row"] for line in journal.read_text().splitlines()]
    attacked = [(row["recipe"], row["number"]) for row in rows if "recipe" in row]
    assert sorted(attacked) == [(recipe, n) for recipe in ("pwws", "typos") for n in range(1, 40, 2)]
    assert not (here / "r.json").exists()


def test_another_process_that_fails_ends_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that cannot start must not leave the first process waiting for ever."""
    import holdfast.attacks.attack_processes as module

    class Dead:
        returncode = 1

        def poll(self) -> int:
            return 1

        def wait(self) -> int:
            return 1

        def terminate(self) -> None: ...

    monkeypatch.setattr(module.subprocess, "Popen", lambda *_, **__: Dead())
    assert main([*ATTACK, "--output", "r.json", "--processes", "2"]) == 2
    assert not (here / "r.json").exists()
    assert list(journals(here / "r.json"))  # what was finished is kept for --resume
