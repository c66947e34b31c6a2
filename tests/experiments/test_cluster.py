"""Cells in jobs of their own: real processes of this machine, started by submitit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
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

from holdfast.cli import main
from holdfast.errors import EndsRun, UserError
from holdfast.experiments import cell_job, cluster_run, job_memory, reproduction
from holdfast.experiments.cell_execution import make
from holdfast.experiments.cell_job import BEGAN, CellJob
from holdfast.experiments.cell_memory import CellMemory
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.cluster_run import make_by_jobs
from holdfast.experiments.job_engines import Local
from holdfast.experiments.job_memory import with_measured_memory
from holdfast.experiments.job_options import job_options
from holdfast.experiments.preparation import prepare
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.files import InUse, output_lock, read_object, write_json
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
    given = settings(TABLE.replace("max_steps: 2", "max_steps: 60"), executor="local", slurm=["time=60"])
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
    before, after, last = (re.findall(r"(\d+)/60 steps", part) for part in [*halves(first), second.read_text()])
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
    next(output.glob("cells/classifier-*/model/model.safetensors")).unlink()
    shutil.rmtree(next(output.glob("cells/attack-*")))
    reproduce(settings(only=["NP"], output=output, executor="local"))
    assert len(list(output.glob("jobs/local-*/logs/*_log.out"))) == 4  # the model that the attack takes gets one


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


@pytest.mark.parametrize("how", ["--executor local", "--jobs 2"])
def test_the_cells_of_several_tables_are_made_together(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    given = settings()
    (tmp_path / "other.yaml").write_text(
        TABLE.replace("title: Small", "title: Other").replace("max_steps: 6", "max_steps: 5")
    )
    made: list[list[Cell]] = []

    def by_jobs(todo: list[Cell], *_: Any, **__: Any) -> dict[str, str]:
        made.append(todo)
        return {cell.key: "not made here" for cell in todo}

    monkeypatch.setattr(reproduction, "make_by_jobs", by_jobs)
    monkeypatch.setattr(reproduction, "make_in_parallel", by_jobs)
    words = ["reproduce", given.table, str(tmp_path / "other.yaml"), *how.split(), "--scale", "paper"]
    words += ["--model", given.model, "--corpus", given.corpus, "--data", given.data, "--output", given.output]
    assert main([*map(str, words), "--masked-lm", str(given.model), "--similarity", str(given.model)]) == 2  # no value
    (todo,) = made
    assert sorted(cell.kind for cell in todo) == ["attack"] * 4 + ["classifier"] * 4 + ["encoder"]
    assert (given.output / "small-paper.json").exists()
    assert (given.output / "other-paper.json").exists()


def test_the_plan_of_jobs(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    given = settings(only=["NP"])
    reproduce(given)
    for path, seconds in (("classifier", 7200.0), ("attack", 1800.0)):
        (file,) = given.output.glob(f"cells/{path}-*/cell.json")
        write_json(file, {**read_object(file), "seconds_of_last_run": seconds})
    words = ["reproduce", given.table, "--plan", "--executor", "slurm"]
    words += ["--slurm", "time=60", "--slurm", "attack.gpus=0"]
    words += ["--scale", "paper", "--model", given.model, "--corpus", given.corpus, "--data", given.data]
    words += ["--output", given.output, "--masked-lm", given.model, "--similarity", given.model, "--slurm", "mem=auto"]
    words += ["--slurm", "encoder.gpu-memory=1GB", "--resources", "light"]
    assert main([*map(str, words), "--json"]) == 0
    jobs = {each["kind"]: each for each in json.loads(capsys.readouterr().out)["jobs"]}
    assert jobs["classifier"] == {
        "kind": "classifier",
        "what": "sst2, none",
        "jobs": 1,
        "seconds": 7200.0,
        "gpu_hours": 2.0,
        "parts": 3,
        "options": "--time=60 --gpus-per-node=1 --mem=8192M",
        "refused": "",
    }
    assert (jobs["attack"]["options"], jobs["attack"]["gpu_hours"]) == ("--time=60 --mem=8192M", 0.0)
    assert jobs["encoder"]["seconds"] is jobs["encoder"]["gpu_hours"] is None
    assert jobs["encoder"]["refused"] == ""
    assert main([*map(str, words)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 jobs, each as soon as its inputs are made: about 2.00 GPU-hours" in printed
    assert "and 1 jobs of kinds without a finished cell" in printed


def test_the_memory_of_a_training_goes_to_its_job(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    (prepared,) = prepare([settings()])
    cells = [cell for cell in prepared.wanted if cell.kind in ("encoder", "attack")]
    asked: list[str] = []

    def steps(trainings: Any, setting: Any, memory: str, console: Any) -> Any:
        asked.append(memory)
        fits = memory != "24GB"
        return [(list(trainings), CellMemory("x", 1, 64, 32, None, 30.0, fits, 16))]

    monkeypatch.setattr(job_memory, "measured_steps", steps)
    (training,) = (cell for cell in cells if cell.kind == "encoder")
    by_cell, refused = with_measured_memory(cells, job_options(["mem=auto", "gpus=0"]), prepared.setting)
    assert by_cell[training.key].megabytes == 8192 + round(30e9 / 2**20)
    assert {by_cell[cell.key].megabytes for cell in cells if cell is not training} == {8192}
    assert refused == {}
    by_cell, refused = with_measured_memory(cells, job_options(["encoder.gpu-memory=24GB"]), prepared.setting)
    assert refused == {
        training.key: "a step takes 30.0 GB, which does not fit in 24GB: --set encoder.mini_batch_size=16 does"
    }
    assert by_cell[training.key].megabytes is None
    asked.clear()
    with_measured_memory(cells, job_options([]), prepared.setting)
    assert asked == []  # nothing is measured unless it is asked for
