"""Cells in jobs of their own: real processes of this machine, started by submitit."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from cheap_job import CheapJob, tries_of
from rich.console import Console
from safetensors.torch import load_file
from small_table import TABLE, values

from holdfast.errors import EndsRun, UserError
from holdfast.experiments import cell_job, cluster_run, reproduction
from holdfast.experiments.cell_execution import make
from holdfast.experiments.cell_job import BEGAN, CellJob
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.cluster_run import make_by_jobs
from holdfast.experiments.job_engines import Local
from holdfast.experiments.preparation import prepare
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.files import InUse, output_lock, read_object
from holdfast.runs.run_log import METRICS_FILE

submitit = pytest.importorskip("submitit", reason="submitit is not installed: pip install 'holdfast[cluster]'")

Settings = Callable[..., ReproduceSettings]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job has written is not waited for as on a network disk."""
    monkeypatch.setattr(cluster_run, "_VISIBLE", 2.0)
    monkeypatch.setattr(cluster_run, "WAIT", 0.2)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def signalled(output: Path, at: Mapping[int, int], sent: list[int]) -> threading.Thread:
    """Send the process that trains a signal when its log has so many lines; each process gets one."""

    def send() -> None:
        for lines, number in at.items():
            while True:
                time.sleep(0.02)
                for log in output.glob(f"cells/encoder-*/model/{METRICS_FILE}"):
                    process = read_object(next(output.glob("cells/.encoder-*.lock"), Path("none"))).get("pid")
                    if process is not None and process not in sent and len(log.read_text().splitlines()) >= lines:
                        break
                else:
                    continue
                break
            sent.append(process)
            os.kill(process, number)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_training_that_is_stopped_and_one_that_is_killed_go_on_from_their_checkpoints(
    settings: Settings, tmp_path: Path
) -> None:
    given = settings(TABLE.replace("max_steps: 2", "max_steps: 120"), executor="local", slurm=["time=60"])
    (prepared,) = prepare([given])
    (training,) = (cell for cell in prepared.cells if cell.kind == "encoder")
    whole, output, said = Store(tmp_path / "whole" / "cells"), given.output, io.StringIO()
    make(training, whole, prepared.setting, Console(quiet=True), ["x"])
    sent: list[int] = []
    # The first signal is how Slurm announces the end of a job's time, the second the end of a process without memory.
    sending = signalled(output, {2: signal.SIGUSR2, 5: signal.SIGKILL}, sent)
    console = Console(file=said, width=1000)
    failed = make_by_jobs([training], prepared.store, prepared.setting, given, console=console, command=["x"])
    sending.join(timeout=1)
    assert failed == {}
    assert len(set(sent)) == 2
    assert said.getvalue().count("submitted again, 1 of 10") == 1  # after the second; after the first it goes on itself
    first, second = sorted(output.glob("jobs/local-*/logs/*_log.out"), key=lambda path: path.stat().st_ctime)
    before, after, last = (re.findall(r"(\d+)/120 steps", part) for part in [*halves(first), second.read_text()])
    assert 0 < int(before[-1]) <= int(after[0]) <= int(last[0])
    assert int(last[0]) > 0
    undisturbed, resumed = (load_file(s.product(training) / "model.safetensors") for s in (whole, prepared.store))
    assert all(torch.equal(resumed[name], weight) for name, weight in undisturbed.items())


def halves(log: Path) -> list[str]:
    """What a job wrote before and after it was queued again."""
    _, before, after = log.read_text().split(BEGAN)
    assert "Requeued job" in before
    return [before, after]


@pytest.mark.slow
def test_jobs_make_the_cells_that_this_process_makes(settings: Settings, made: list[str], tmp_path: Path) -> None:
    whole = reproduce(settings(only=["NP"]))
    made.clear()
    output = tmp_path / "jobs"
    result = reproduce(settings(only=["NP"], output=output, executor="local"))
    assert made == []  # in other processes
    assert values(result) == values(whole)
    assert not list(output.glob("jobs/*/*.json"))
    reproduce(settings(only=["NP"], output=output, executor="local"))
    assert len(list(output.glob("jobs/local-*/logs/*_log.out"))) == 2  # finished cells get no jobs


# --- the engine of this machine, with jobs that do nothing -----------------------------------------------------------


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(cluster_run._Jobs, "_work", lambda self, cell, options: CheapJob(cell, self._store))


def make_cheap(folder: Path, cells: list[Cell], **changes: Any) -> tuple[dict[str, str], list[str]]:
    """The cells that failed, and the lines that were printed."""
    given: dict[str, Any] = {"table": "x", "output": folder, "executor": "local", **changes}
    said = io.StringIO()
    setting = Setting(model=None, corpus=None, data=None)
    try:
        failed = make_by_jobs(
            *(cells, Store(folder / "cells"), setting, ReproduceSettings(**given)),
            console=Console(file=said, width=1000),
            command=["x"],
        )
    except KeyboardInterrupt:
        failed = {"stopped": ""}
    return failed, said.getvalue().splitlines()


@pytest.mark.usefixtures("cheap")
def test_a_process_that_died_is_started_again(tmp_path: Path) -> None:
    once, always = (Cell("encoder", {"does": does}, label=does) for does in ("die once", "die"))
    failed, _ = make_cheap(tmp_path, [once, always], retries=1, jobs=2)
    store = Store(tmp_path / "cells")
    assert (tries_of(store, once), tries_of(store, always)) == (2, 2)
    assert list(failed) == [always.key]
    assert "ended without a result (state FINISHED)" in failed[always.key]


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("on_stop", ["leave", "cancel"])
def test_the_jobs_of_a_command_that_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_stop: str) -> None:
    waits, store = Cell("encoder", {"does": "wait"}, label="waits"), Store(tmp_path / "cells")
    children: list[int] = []

    def stop(self: Any, jobs: Any) -> None:
        if not tries_of(store, waits):
            monkeypatch.setattr(cluster_run, "_STATES", 0.0)
            return
        children.extend(int(job.job_id) for job in jobs)
        for child in children:
            os.kill(child, signal.SIGINT)  # as a terminal sends Ctrl-C to all processes that were started in it
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Local, "refresh", stop)
        failed, said = make_cheap(tmp_path, [waits], on_stop=on_stop)
    assert failed == {"stopped": ""}
    (job,) = children
    assert said[-1].endswith(f": {job}")
    assert ("picks them up" in said[-1]) is (on_stop == "leave")
    if on_stop == "leave":
        time.sleep(0.5)
        (tmp_path / "cells" / "go").touch()
        failed, said = make_cheap(tmp_path, [waits])
        assert f"encoder: waits: job {job} goes on" in said
        assert tries_of(store, waits) == 1
    else:
        (tmp_path / "cells" / "go").touch()
        failed, said = make_cheap(tmp_path, [waits])
        assert not any("goes on" in line for line in said)
        assert tries_of(store, waits) == 2
    assert failed == {}


def test_a_signal_of_the_cluster_stops_the_cell_and_queues_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: received.append(number))
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    cell, store = Cell("encoder", {}), Store(tmp_path)
    for sent, expected in ((signal.SIGUSR2, [signal.SIGUSR2]), (signal.SIGTERM, [])):
        monkeypatch.setattr(cell_job, "make", lambda *_, sent=sent, **__: os.kill(os.getpid(), sent))
        received.clear()
        with pytest.raises(KeyboardInterrupt):
            CellJob(cell, store, Setting(model=None, corpus=None, data=None), ["x"])()
        assert received == expected
    assert signal.signal(signal.SIGUSR2, before) is not before  # the handlers are the former ones


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UserError("why"), ("not made", "why")),
        (EndsRun("disk"), ("ends the run", "disk")),
        (InUse("laptop"), ("in use", "laptop")),
        (None, ("made", "")),
    ],
)
def test_what_becomes_of_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None, outcome: tuple[str, str]
) -> None:
    def make_or_fail(*_: Any, **__: Any) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(cell_job, "make", make_or_fail)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    work = CellJob(Cell("encoder", {}), Store(tmp_path), Setting(model=None, corpus=None, data=None), ["x"])
    assert work() == outcome


def test_two_calls_share_a_table_and_write_it_one_after_the_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = settings(only=["NP"])
    given.output.mkdir()
    other = contextlib.ExitStack()
    other.enter_context(output_lock(given.result_file))
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        assert list(given.output.glob("cells/attack-*/cell.json"))  # the cells are made all the same
        other.close()

    monkeypatch.setattr(reproduction.time, "sleep", sleep)
    assert None not in [value for (_, name), value in values(reproduce(given)).items() if name != "Mean"]
    assert len(waited) == 1
    assert given.result_file.exists()
