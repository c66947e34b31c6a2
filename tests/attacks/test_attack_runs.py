"""Attacks that are killed, and attacks by several processes: the same result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from small_attacks import ATTACK, content, mistake

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.journal import journals
from holdfast.cli import main
from holdfast.errors import UserError
from warm import WarmPython


def run(*words: str) -> None:
    """Run a command in this process."""
    sys.exit(main(list(words)))


def killed_after(lines: str, output: str, *words: str) -> None:
    """Attack in this process, which is killed once its journals hold more than so many lines."""

    def watch() -> None:
        while sum(path.read_bytes().count(b"\n") for path in journals(Path(output))) <= int(lines):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    main([*words, "--output", output, "--resume"])


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_result(here: Path, warm: WarmPython) -> None:
    whole = [*ATTACK, "--side-by-side", "2"]
    assert main([*whole, "--output", "whole.json"]) == 0
    for lines in (8, 16, 24):
        killed = warm.run(Path(__file__), str(lines), "parts.json", *whole, function="killed_after")
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert not (here / "parts.json").exists()
    assert main([*whole, "--output", "parts.json", "--resume"]) == 0
    assert content(here / "parts.json") == content(here / "whole.json")


@pytest.mark.slow
def test_several_processes_give_the_same_result(here: Path, warm: WarmPython) -> None:
    assert main([*ATTACK, "--output", "one.json"]) == 0
    command = [sys.executable, "-m", "holdfast", *ATTACK, "--output", "two.json", "--processes", "2"]
    assert subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 0
    # As a launcher does it.
    launched = warm.run(Path(__file__), *ATTACK, "--output", "three.json", processes=3, function="run")
    assert launched.returncode == 0, launched.stderr[-2000:]
    assert content(here / "one.json") == content(here / "two.json") == content(here / "three.json")
    assert not list(journals(here / "two.json"))


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


@pytest.mark.slow
def test_the_other_processes_end_with_the_first_one_even_if_it_is_killed(here: Path, warm: WarmPython) -> None:
    words = [*ATTACK, "--side-by-side", "1", "--processes", "2"]
    killed = warm.run(Path(__file__), "3", "two.json", *words, function="killed_after")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    deadline = time.monotonic() + 60
    while (left := _started(here)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left
    assert not any('"done"' in path.read_text() for path in journals(here / "two.json"))


def _started(folder: Path) -> list[str]:
    """Return the numbers of the processes that work in a folder, apart from this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            own = process.name != str(os.getpid()) and (process / "cwd").readlink() == folder
            found += [process.name] if own and b"holdfast" in (process / "cmdline").read_bytes() else []
        except OSError:  # it has ended
            continue
    return found


def test_a_stopped_attack_says_how_to_go_on(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.attacks.attack_run.attack", stopped)
    for words, line in (
        (["--output", "r.json"], "stopped; continue with --resume"),
        ([], "stopped; nothing was kept: with --output FILE.json a stopped run can be continued"),
    ):
        assert main([*ATTACK, *words]) == 130
        assert capsys.readouterr().err.splitlines()[-1] == f"holdfast: {line}"
