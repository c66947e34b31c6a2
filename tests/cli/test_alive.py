"""A sign of life while a command works, and an end at once: in processes that are forked off and signalled."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast.data.inventory
from holdfast.cli import heartbeat, main
from holdfast.stopping import DeferredStop

CHECK = ["data", "check"]
_LONG = 30.0
"""Seconds that a busy machine may take for what is done at once."""


@dataclass
class Child:
    """A command in a process of its own, with what it printed so far and when."""

    pid: int
    output: int

    def __post_init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        self._rest = b""

    def read(self, seconds: float, until: str | None = None) -> bool:
        """Collect lines until one holds a text, or the output ends; whether that came within the time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.output], [], [], left)[0]:
                break
            block = os.read(self.output, 1 << 16)
            if not block:
                return until is None
            *whole, self._rest = (self._rest + block).split(b"\n")
            self.lines += [(time.monotonic(), line.decode()) for line in whole]
            if until is not None and any(until in line for _, line in self.lines):
                return True
        return False

    def signalled(self, number: int) -> tuple[int, float]:
        """Send a signal; the exit code, and the seconds until the end."""
        sent = time.monotonic()
        os.kill(self.pid, number)
        assert self.read(_LONG), "it goes on"
        return self.code(), time.monotonic() - sent

    def code(self) -> int:
        """Wait for the end and return the exit code."""
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def command() -> Iterator[Callable[..., Child]]:
    """``command(words)``: holdfast with these words, in a child with all that the test has imported and replaced."""
    children: list[Child] = []

    def start(words: list[str]) -> Child:
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                os.dup2(writes, 1)
                os.dup2(writes, 2)
                signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
                stream = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  # the process ends with it
                with contextlib.redirect_stderr(stream), contextlib.redirect_stdout(stream):
                    code = main(words)
            os._exit(code)
        os.close(writes)
        children.append(Child(pid, reads))
        return children[-1]

    yield start
    for child in children:
        if child.pid:
            os.kill(child.pid, signal.SIGKILL)
            child.code()
        os.close(child.output)


def checking(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Have `holdfast data check` do this work alone."""
    monkeypatch.setattr(holdfast.data.inventory, "check_data", lambda _: work() and [])


def wait_in_a_library() -> None:
    """Compute for minutes without one step of Python, as a backward pass or a tokeniser does."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)


@pytest.mark.slow
def test_a_verb_speaks_within_five_seconds_and_then_every_five(
    command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    checking(monkeypatch, wait_in_a_library)
    began = time.monotonic()
    child = command(CHECK)
    child.read(15.0)
    times = [began, *(at for at, _ in child.lines)]
    assert [line for _, line in child.lines][:2] == ["reading every file: 3 s so far", "reading every file: 6 s so far"]
    assert max(b - a for a, b in itertools.pairwise(times)) < 5.0


def test_before_a_stage_starts_the_verb_is_told(command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.data.progress_console", lambda *_: time.sleep(5.0))
    child = command(CHECK)
    assert child.read(_LONG, "data: starting, 2 s so far")


def test_a_command_for_machines_says_nothing(command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_EVERY", 0.1)
    checking(monkeypatch, lambda: time.sleep(2.0) is None)
    child = command([*CHECK, "--json"])
    assert child.read(_LONG)
    assert [line for _, line in child.lines] == ["[]"]
    assert child.code() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_within_a_library_ends_the_process_at_once(
    number: int, code: int, command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_EVERY", 0.3)
    checking(monkeypatch, wait_in_a_library)
    child = command(CHECK)
    assert child.read(_LONG, "reading every file")
    time.sleep(0.5)  # into the library
    ended, seconds = child.signalled(number)
    assert (ended, child.lines[-1][1]) == (code, "holdfast: stopped")
    assert seconds < 5.0


def test_a_signal_that_may_wait_does_not_end_a_call_and_a_second_one_does(
    command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        stop = DeferredStop(lambda: None)
        with stop.waiting():
            wait_in_a_library()

    monkeypatch.setattr(heartbeat, "_EVERY", 0.3)
    checking(monkeypatch, work)
    child = command(CHECK)
    assert child.read(_LONG, "reading every file")
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGTERM)
    assert child.read(3 * heartbeat._PATIENCE, "never printed") is False
    assert os.waitpid(child.pid, os.WNOHANG)[0] == 0, "it goes on"
    assert child.signalled(signal.SIGTERM)[0] == 143


@pytest.mark.slow
def test_what_ends_by_itself_after_a_stop_is_given_the_time(
    command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def work() -> None:
        try:
            time.sleep(_LONG)
        finally:
            time.sleep(2.5)  # longer than a call into a library may go on
            (tmp_path / "cleaned").touch()

    monkeypatch.setattr(heartbeat, "_EVERY", 0.3)
    checking(monkeypatch, work)
    child = command(CHECK)
    assert child.read(_LONG, "reading every file")
    assert child.signalled(signal.SIGINT)[0] == 130
    assert (tmp_path / "cleaned").exists()


@pytest.mark.slow
def test_a_signal_that_is_read_late_is_not_taken_for_one_that_nobody_saw(
    command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a busy machine the thread gets its turn seconds after the main thread has reacted."""

    def late(*given: Any) -> Any:
        found = real(*given)
        time.sleep(1.5 if found[0] else 0.0)
        return found

    def work() -> None:
        try:
            time.sleep(_LONG)
        finally:
            time.sleep(4.0)
            (tmp_path / "cleaned").touch()

    real = select.select
    monkeypatch.setattr(heartbeat, "select", SimpleNamespace(select=late))
    monkeypatch.setattr(heartbeat, "_EVERY", 0.3)
    checking(monkeypatch, work)
    child = command(CHECK)
    assert child.read(_LONG, "reading every file")
    assert child.signalled(signal.SIGINT)[0] == 130
    assert (tmp_path / "cleaned").exists()


def test_a_signal_to_a_process_forked_off_does_not_end_this_one(
    command: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> bool:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_LONG)
            os._exit(0)
        os.waitpid(child, 0)
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            time.sleep(0.5)
        return True

    checking(monkeypatch, work)
    child = command(CHECK)
    assert child.read(_LONG)
    assert child.code() == 0


def test_no_thread_is_left_behind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import threading

    names: list[str] = []
    checking(monkeypatch, lambda: names.extend(thread.name for thread in threading.enumerate()) or True)
    assert main(CHECK) == 0
    assert names.count("holdfast-alive") == 1
    assert "holdfast-alive" not in [thread.name for thread in threading.enumerate()]
    assert signal.set_wakeup_fd(-1) == -1
    assert capsys.readouterr().err == ""


def test_ctrl_c_within_the_attack_of_a_long_text_ends_at_once(
    command: Callable[..., Child],
    make_encoder_model: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    import holdfast.attacks.attack_run  # imported here once, not in each child

    monkeypatch.setattr(heartbeat, "_EVERY", 0.3)
    make_encoder_model("bert", pooling="mean").save_pretrained(str(tmp_path / "model"))
    texts = tmp_path / "long.txt"
    texts.write_text("the old dog sleeps in a big house " * 2000 + "\na dog runs\na cat eats in the park\n")
    real = holdfast.attacks.attack_run.Engine._query

    def slow(self: Any, attacks: Any) -> Any:
        time.sleep(0.2)
        return real(self, attacks)

    monkeypatch.setattr(holdfast.attacks.attack_run.Engine, "_query", slow)
    words = ["attack", str(tmp_path / "model"), "--texts", str(texts), "--recipes", "typos", "--resources", "light"]
    child = command([*words, "--threshold", "-1"])
    assert child.read(2 * _LONG, "words tried in 1 text"), child.lines
    said = "\n".join(line for _, line in child.lines)
    assert "1 text is longer than the model reads: 15," in said
    ended, seconds = child.signalled(signal.SIGINT)
    assert (ended, child.lines[-1][1]) == (
        130,
        "holdfast: stopped; nothing was kept: with --output FILE.json a stopped run can be continued",
    )
    assert seconds < 5.0
