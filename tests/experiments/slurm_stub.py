"""A Slurm of this machine: ``sbatch``, ``srun``, ``squeue``, ``sacct``, ``scancel`` and ``scontrol``, as one script.

Its jobs are processes. What each command was called with stands in ``calls``, the state of a job in ``JOB.state``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = ("sbatch", "srun", "squeue", "sacct", "scancel", "scontrol")
HERE = Path(os.environ.get("STUB_SLURM", "."))


def install(folder: Path) -> None:
    """Write the commands into a folder for PATH."""
    folder.mkdir(parents=True)
    for name in COMMANDS:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" {name} "$@"\n')
        path.chmod(0o755)


def sbatch(script: str) -> None:
    if (HERE / "refuse").exists():
        sys.exit((HERE / "refuse").read_text())
    text = Path(script).read_text()
    number = str(len(list(HERE.glob("*.sh"))) + 101)
    (HERE / f"{number}.sh").write_text(text)
    array = re.search(r"--array=0-(\d+)", text)
    for index in range(int(array[1]) + 1) if array else [None]:
        environment = {**os.environ, "SLURM_JOB_ID": number if index is None else str(int(number) * 1000 + index)}
        job = number if index is None else f"{number}_{index}"
        if index is not None:
            environment |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(index)}
        (HERE / f"{job}.state").write_text("PENDING")
        if not (HERE / "hold").exists():
            command = [sys.executable, __file__, "work", job, str(HERE / f"{number}.sh")]
            subprocess.Popen(command, env=environment, start_new_session=True, stdout=-3, stderr=-3, stdin=-3)
    print(f"Submitted batch job {number}")


def work(job: str, script: str) -> None:
    """Run a job to its end, and note its state."""
    (HERE / f"{job}.state").write_text("RUNNING")
    running = subprocess.Popen(["bash", script], start_new_session=True)
    (HERE / f"{job}.pid").write_text(str(running.pid))
    code = running.wait()
    if (HERE / f"{job}.state").read_text() == "RUNNING":
        (HERE / f"{job}.state").write_text("COMPLETED" if code == 0 else "FAILED")


def srun(*words: str) -> None:
    """Become the command, with the output where it is wanted."""
    rest = list(words)
    job = os.environ.get("SLURM_ARRAY_JOB_ID", ""), os.environ.get("SLURM_ARRAY_TASK_ID", "")
    name = "_".join(job) if job[0] else os.environ["SLURM_JOB_ID"]
    while rest[0].startswith("--"):
        option = rest.pop(0)
        if option in ("--output", "--error"):
            path = rest.pop(0).replace("%A_%a", name).replace("%j", name).replace("%t", "0")
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1 if option == "--output" else 2)
    os.execvp(rest[0], rest)


def squeue(*_: str) -> None:
    for path in HERE.glob("*.state"):
        if path.read_text() in ("PENDING", "RUNNING"):
            print(path.stem)


def sacct(*_: str) -> None:
    if (HERE / "no-accounting").exists():
        sys.exit("Slurm accounting storage is disabled")
    print("JobID|State|NodeList")
    for path in HERE.glob("*.state"):
        print(f"{path.stem}|{path.read_text()}|here")


def scancel(*jobs: str) -> None:
    for job in jobs:
        (HERE / f"{job}.state").write_text("CANCELLED by 0")
        if (HERE / f"{job}.pid").exists():
            os.killpg(int((HERE / f"{job}.pid").read_text()), signal.SIGKILL)


def scontrol(*_: str) -> None:
    print("Configuration data\nClusterName             = stub\nControlMachine = here")


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    if name != "work":
        with (HERE / "calls").open("a") as calls:
            calls.write(" ".join([name, *words]) + "\n")
    {"work": work, **{command: globals()[command] for command in COMMANDS}}[name](*words)
