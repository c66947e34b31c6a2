"""Cells in jobs of a Slurm cluster, which stubs of its commands stand in for; and how jobs end."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import slurm_stub
from cheap_job import CheapJob, tries_of
from rich.console import Console

from holdfast.errors import EndsRun, NotInstalled, UserError
from holdfast.experiments import cluster_run, job_engines
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.cluster_run import make_by_jobs
from holdfast.experiments.reproduce_settings import ReproduceSettings

submitit = pytest.importorskip("submitit", reason="submitit is not installed: pip install 'holdfast[cluster]'")


class Cluster:
    """A stub of Slurm, and a store of cells that jobs make without work."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder / "slurm", folder / "out"
        self.folder.mkdir()
        self.store = Store(self.output / "cells")
        self.said = io.StringIO()

    def make(self, cells: list[Cell], **changes: Any) -> dict[str, str]:
        given: dict[str, Any] = {"table": "x", "output": self.output, "executor": "slurm", **changes}
        setting = Setting(model=None, corpus=None, data=None)
        console = Console(file=self.said, width=1000)
        return make_by_jobs(cells, self.store, setting, ReproduceSettings(**given), console=console, command=["x"])

    def calls(self, name: str) -> list[str]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[0] == name]

    def scripts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("*.sh"))]

    def kill_jobs(self) -> None:
        for path in self.folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(path.read_text()), signal.SIGKILL)

    def lines(self) -> list[str]:
        return [line for line in self.said.getvalue().splitlines() if not line.startswith("making cells")]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    slurm_stub.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STUB_SLURM", str(tmp_path / "slurm"))
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    for number in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(number, raising=False)
    monkeypatch.setattr(submitit.SlurmJob, "watcher", type(submitit.SlurmJob.watcher)())  # it knows jobs of other tests
    monkeypatch.setattr(cluster_run, "_VISIBLE", 1.0)
    monkeypatch.setattr(cluster_run, "WAIT", 0.1)
    monkeypatch.setattr(cluster_run, "_STATES", 0.5)
    monkeypatch.setattr(cluster_run, "_IN_USE", 0.5)
    monkeypatch.setattr(cluster_run._Jobs, "_work", lambda self, cell, options: CheapJob(cell, self._store))
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.kill_jobs()


def cell(kind: str, does: str = "", inputs: Mapping[str, Cell] | None = None, **settings: Any) -> Cell:
    return Cell(kind, {"does": does, **settings}, inputs or {}, label=f"{kind} {does}".strip())


def test_a_job_is_submitted_with_its_options_once_its_inputs_are_made(cluster: Cluster) -> None:
    encoders = [cell("encoder", n=n) for n in range(2)]
    after = cell("evaluation", inputs={"encoder": encoders[0]})  # its job checks that its input is finished
    words = ["partition=gpu", "account=nlp", "encoder.time=8:00:00", "cpus=4", "evaluation.gpus=0", "mem=16GB"]
    failed = cluster.make([*encoders, after], slurm=[*words, "exclusive=true", "setup=export A='b c'"])
    assert failed == {}
    assert len(cluster.calls("sbatch")) == 2
    array, alone = cluster.scripts()
    for line in (
        *("--array=0-1%2", "--time=480", "--cpus-per-task=4", "--gpus-per-node=1", "--mem=16384M", "--partition=gpu"),
        *("--account=nlp", "--exclusive", "--job-name=holdfast-encoder", "--signal=USR2@120", "--open-mode=append"),
    ):
        assert f"#SBATCH {line}" in array.splitlines()
    assert "export A='b c'" in array.splitlines()
    assert re.search(r"^srun .*--cpus-per-task=4 .* -m submitit.core._submit", array, re.MULTILINE)
    assert "#SBATCH --time=240" in alone.splitlines()
    assert "--gpus" not in alone
    assert "--array" not in alone
    assert cluster.lines()[:2] == [f"encoder: encoder: job 101_{n}" for n in range(2)]
    lines = [line.partition(",")[0] for line in cluster.lines()]
    assert lines.index("evaluation: evaluation: job 102") > lines.index("made (encoder: encoder)")
    assert cluster.lines()[-1] == "made (evaluation: evaluation), 0 more wait"
    assert list(cluster.output.glob("jobs/*/*.json")) == []
    assert cluster.make([]) == {}


def test_what_was_removed_after_its_job_ended_is_made_again(cluster: Cluster) -> None:
    encoder = cell("encoder")
    assert cluster.make([encoder]) == {}
    (folder,) = (cluster.output / "jobs").iterdir()
    record = folder / f"{cluster.store.place(encoder).name}.json"
    record.write_text('{"job": "101", "died": 0}')  # as of a command that was stopped before its job ended
    shutil.rmtree(cluster.store.place(encoder))
    assert cluster.make([encoder]) == {}
    assert cluster.store.finished(encoder)
    assert not any("goes on" in line for line in cluster.lines())


def test_no_more_jobs_at_once_than_are_asked_for(cluster: Cluster) -> None:
    cells = [cell("encoder", n=n) for n in range(3)]
    assert cluster.make(cells, jobs=2) == {}
    assert len(cluster.calls("sbatch")) >= 2
    assert [line for line in cluster.scripts()[0].splitlines() if "--array" in line] == ["#SBATCH --array=0-1%2"]


def test_a_job_that_died_is_submitted_again(cluster: Cluster) -> None:
    good, bad = cell("encoder", "die once"), cell("attack", "die")
    after = cell("evaluation", inputs={"encoder": bad})
    failed = cluster.make([good, bad, after], retries=1)
    assert tries_of(cluster.store, good) == tries_of(cluster.store, bad) == 2
    assert cluster.store.finished(good)
    assert set(failed) == {bad.key, after.key}
    assert re.search(r"^job \d+ ended without a result \(state FAILED\): .*; its log: .*_0_log.err$", failed[bad.key])
    assert tries_of(cluster.store, after) == 0
    assert sum("submitted again, 1 of 1" in line for line in cluster.lines()) == 2


def test_a_mistake_is_told_in_one_line_and_not_tried_again(cluster: Cluster) -> None:
    raises, refused = cell("encoder", "raise"), cell("attack", "not made")
    failed = cluster.make([raises, refused])
    assert failed[refused.key] == "the corpus is empty"
    assert re.fullmatch(
        r"job \d+ failed: ValueError: there is a hole in the bucket; its log: \S+_log.err", failed[raises.key]
    )
    assert tries_of(cluster.store, raises) == tries_of(cluster.store, refused) == 1
    log = Path(failed[raises.key].rpartition("its log: ")[2])
    assert "ValueError: there is a hole in the bucket" in log.read_text()
    with pytest.raises(EndsRun, match=r"^job \d+ \(encoder: encoder ends the run\): the corpus is empty"):
        cluster.make([cell("encoder", "ends the run")])


@pytest.mark.parametrize(
    ("state", "message"), [("OUT_OF_MEMORY", r"--slurm encoder.mem=… gives it more memory"), ("CANCELLED by 0", "")]
)
def test_a_job_that_would_end_the_same_way_is_not_submitted_again(cluster: Cluster, state: str, message: str) -> None:
    waits = cell("encoder", "wait")

    def end(jobs: Any) -> None:
        (cluster.folder / "101.state").write_text(state)
        cluster.kill_jobs()

    failed = with_refresh(cluster, end, lambda: cluster.make([waits]))
    assert f"(state {state.upper()})" in failed[waits.key]
    assert message in failed[waits.key]
    assert len(cluster.calls("sbatch")) == 1


def with_refresh(cluster: Cluster, before: Callable[[Any], None], run: Callable[[], Any]) -> Any:
    """Do something once a job works, before its state is asked for."""
    real, done = job_engines.Slurm.refresh, []

    def refresh(self: Any, jobs: Any) -> None:
        if jobs and not done and tries_of(cluster.store, cell("encoder", "wait")):
            done.append(True)
            before(jobs)
        real(self, jobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_engines.Slurm, "refresh", refresh)
        return run()


def test_without_accounting_the_queue_tells_which_jobs_have_gone(cluster: Cluster) -> None:
    (cluster.folder / "no-accounting").touch()
    good, bad = cell("encoder"), cell("attack", "die")
    failed = cluster.make([good, bad], retries=0)
    assert cluster.store.finished(good)
    assert "ended without a result (state UNKNOWN)" in failed[bad.key]
    assert "--array" in cluster.calls("squeue")[0]


def test_the_same_command_picks_up_the_jobs_of_one_that_was_stopped(cluster: Cluster) -> None:
    waits = cell("encoder", "wait")

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_refresh(cluster, stop, lambda: cluster.make([waits]))
    assert cluster.lines()[-1] == "1 jobs go on, and the same command picks them up: 101"
    assert cluster.calls("scancel") == []
    (cluster.store.folder / "go").touch()
    assert cluster.make([waits]) == {}
    assert "encoder: encoder wait: job 101 goes on" in cluster.lines()
    assert tries_of(cluster.store, waits) == len(cluster.calls("sbatch")) == 1


def test_jobs_are_cancelled_with_their_command_if_it_was_told_so(cluster: Cluster) -> None:
    waits = cell("encoder", "wait")

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_refresh(cluster, stop, lambda: cluster.make([waits], on_stop="cancel"))
    assert cluster.calls("scancel") == ["scancel 101"]
    assert "1 jobs are cancelled; the same command continues their work: 101" in cluster.lines()
    (cluster.store.folder / "go").touch()
    assert cluster.make([waits]) == {}  # in another job
    assert len(cluster.calls("sbatch")) == 2


def test_what_another_run_makes_is_left_to_it(cluster: Cluster) -> None:
    busy, other = cell("encoder", "in use once"), cell("attack")
    assert cluster.make([busy, other]) == {}
    assert tries_of(cluster.store, busy) == 2
    assert sum(line.startswith("left for later: ") for line in cluster.lines()) == 1
    # What has been made elsewhere before it is submitted is not submitted.
    before = len(cluster.calls("sbatch"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "usable", lambda self, cell: True)
        assert cluster.make([cell("encoder", n=7)]) == {}
    assert len(cluster.calls("sbatch")) == before


def test_what_sbatch_refuses_is_one_line(cluster: Cluster) -> None:
    (cluster.folder / "refuse").write_text("sbatch: error: invalid partition specified: gpus\nsbatch: error: no job")
    with pytest.raises(EndsRun, match=r"sbatch refused a job \(.*--partition=gpus\): .*invalid partition.* no job$"):
        cluster.make([cell("encoder")], slurm=["partition=gpus"])


def test_without_slurm_or_submitit_it_is_one_line(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin" / "sbatch").unlink()
    with pytest.raises(UserError, match=r"there is no sbatch here: run the command .* or give --executor local"):
        cluster.make([cell("encoder")])
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(NotInstalled, match=r"--executor needs submitit: pip install 'holdfast\[cluster\]'"):
        cluster.make([cell("encoder")], executor="local")
