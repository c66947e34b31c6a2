"""A stop by signal writes a checkpoint at the end of the step, and the run goes on from it bit by bit."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kills import content
from small_world import World, jobs, make_world

from holdfast.cli import main
from holdfast.runs.checkpoints import checkpoints, is_intact
from holdfast.runs.run_status import standing_of
from holdfast.runs.stop_checkpoint import STOPPING, CheckpointAtStop
from holdfast.stopping import DeferredStop, StopAtOnce, Stopped


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@contextlib.contextmanager
def usual(number: int) -> Iterator[None]:
    """A signal ends this process as it ends any, as in a shell."""
    before = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def signalled(monkeypatch: pytest.MonkeyPatch, number: int, step: int, event: str = "on_step_begin") -> None:
    """Let every training get a signal at a step."""

    def send(self: CheckpointAtStop, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == step:
            os.kill(os.getpid(), number)
        if event != "on_step_begin":
            original(self, args, state, control)

    original = getattr(CheckpointAtStop, event)
    monkeypatch.setattr(CheckpointAtStop, event, send)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param("train", signal.SIGTERM),
        pytest.param("train", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("finetune", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("pretrain", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("harden", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_has_a_checkpoint_of_its_step_and_ends_in_the_same_bits(
    world: World,
    name: str,
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    words = jobs(world)[name]
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert main(words) == 0
    monkeypatch.chdir(tmp_path / "parts")
    capsys.readouterr()
    with usual(number), monkeypatch.context() as patched:
        signalled(patched, number, 4)
        assert main(words) == 128 + number
    lines = capsys.readouterr().err.splitlines()
    assert STOPPING in lines
    assert lines[-1] == "holdfast: stopped; continue with --resume"
    newest = checkpoints(Path("out"))[-1]
    assert newest.name == "checkpoint-5", "between the regular ones, of step 3 and 6"
    assert is_intact(newest)
    assert standing_of(Path("out")).state == "stopped"
    assert main([*words, "--resume"]) == 0
    assert f"resuming from {newest.name}" in capsys.readouterr().err
    assert content(Path()) == content(tmp_path / "whole"), "the same weights, log and checkpoints"


@pytest.mark.parametrize("event", ["on_evaluate", "on_save"])
def test_a_signal_between_two_steps_is_heard(
    event: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step 4 is evaluated, step 3 is saved."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    step = {"on_evaluate": 4, "on_save": 3}[event]
    with usual(signal.SIGTERM):
        signalled(monkeypatch, signal.SIGTERM, step, event)
        assert main(jobs(world)["train"]) == 143
    assert checkpoints(Path("out"))[-1].name == f"checkpoint-{step}"


def test_a_second_signal_stops_at_once(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)

    def send_twice(self: CheckpointAtStop, args: Any, state: Any, *_: Any, **__: Any) -> None:
        if state.global_step == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(CheckpointAtStop, "on_step_begin", send_twice)
    with usual(signal.SIGINT), usual(signal.SIGTERM):
        assert main(jobs(world)["train"]) == 143
    assert [path.name for path in checkpoints(Path("out"))] == ["checkpoint-3"]


# --- the handlers ------------------------------------------------------------------------------------------------


def test_without_a_command_line_a_signal_waits_and_then_ends_as_before() -> None:
    told: list[bool] = []
    stop = DeferredStop(lambda: told.append(True))
    with usual(signal.SIGINT):
        with stop.waiting():
            os.kill(os.getpid(), signal.SIGINT)
            assert (stop.requested, told) == (signal.SIGINT, [True])
            with pytest.raises(KeyboardInterrupt):
                stop.end()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_and_an_ignored_signal_are_left_alone() -> None:
    seen: list[int] = []

    def own(number: int, _: Any) -> None:
        seen.append(number)

    before = [signal.signal(signal.SIGTERM, own), signal.signal(signal.SIGHUP, signal.SIG_IGN)]
    try:
        stop = DeferredStop(lambda: seen.append(0))
        with stop.waiting():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
        assert (seen, stop.requested) == ([signal.SIGTERM], None)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])


def test_the_command_line_is_told_that_a_signal_may_wait() -> None:
    calls: list[object] = []
    handler = StopAtOnce(lambda: calls.append("reacts"), calls.append)
    before = signal.signal(signal.SIGTERM, handler)
    try:
        stop = DeferredStop(lambda: calls.append("notified"))
        with stop.waiting():
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Stopped) as stopped:
                stop.end()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.number == signal.SIGTERM
    assert calls[:4] == [True, "notified", False, "reacts"]


@pytest.fixture
def forked() -> Callable[[Callable[[], None]], int]:
    """Return a function that runs another in a forked process and gives its exit code."""

    def run(work: Callable[[], None]) -> int:
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run


def test_a_process_that_a_library_forks_ends_at_once(forked: Callable[[Callable[[], None]], int]) -> None:
    with usual(signal.SIGTERM):
        stop = DeferredStop(lambda: None)
        with stop.waiting():
            assert forked(lambda: os.kill(os.getpid(), signal.SIGTERM)) == -signal.SIGTERM
        assert stop.requested is None
