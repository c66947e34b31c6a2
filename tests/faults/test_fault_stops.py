"""A stop is clean and a full disk is one line; nothing goes by the wall clock."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import cli
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.files import atomic_path
from holdfast.results import new_result, write_result

# --- signals -----------------------------------------------------------------------------------------------------


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """``verb(work)``: `holdfast train …` does no more than ``work``."""

    def replace(work: Callable[[], None]) -> None:
        import holdfast.training.training_run

        monkeypatch.setattr(holdfast.training.training_run, "train", lambda *_, **__: work())

    return replace


TRAIN = ["train", "simcse", "--model", "m", "--corpus", "c.txt", "--output", "out"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_a_clean_stop(number: int, verb: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with atomic_path(tmp_path / "file") as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), number)
            time.sleep(5)

    verb(work)
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    inherited = signal.signal(number, usual)  # ignored where the tests run in the background of a shell
    try:
        assert main(TRAIN) == 128 + number
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, inherited)
    assert capsys.readouterr().err == "holdfast: stopped; continue with --resume\n"
    assert list(tmp_path.iterdir()) == [], "what was being written is removed"


def test_a_signal_that_somebody_else_sees_to_is_left_alone(verb: Any) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        verb(lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert main(TRAIN) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.SIGTERM in seen


def test_a_process_that_was_forked_off_ends_as_any(verb: Any, capfd: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []

    def work() -> None:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
            os._exit(0)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    verb(work)
    assert main(TRAIN) == 0
    assert ended == [-signal.SIGTERM]
    assert "stopped" not in capfd.readouterr().err


# --- a full disk -------------------------------------------------------------------------------------------------


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")


def test_a_result_that_does_not_fit_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    made = {"kind": "evaluate", "command": ["x"], "model": "m", "identity": {"model_sha256": "0"}, "protocol": {}}
    result = new_result(**made, seed=None)  # type: ignore[arg-type]
    write_result(path, result)
    before = path.read_bytes()
    for place in ("write_text", "replace", "chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, place, full)
            with pytest.raises(UserError, match=r"no space left on the disk while writing .*r\.json"):
                write_result(path, {**result, "seed": 3})
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["r.json"]


def test_a_file_that_may_not_grow_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The system's own limit, met in the middle of a write, in a process of its own."""
    child = os.fork()
    if child == 0:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        code = 1
        try:
            with atomic_path(tmp_path / "big") as temporary:
                temporary.write_bytes(b"x" * 1000)
        except UserError as error:
            code = 0 if "big: File too large" in str(error) else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (errno.ENOSPC, "no space left on the disk while writing /some/file: free some space and run again"),
        (errno.EACCES, "/some/file: Permission denied"),
        (errno.EIO, "/some/file: Input/output error"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    number: int, line: str, verb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    verb(work)
    assert main(TRAIN) == 2
    assert capsys.readouterr().err == f"holdfast: {line}\n"


def test_a_name_that_is_too_long_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "x" * 5000]) == 2
    assert main(["evaluate", "x" * 5000]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("File name too long" in line for line in lines)


# --- the wall clock ----------------------------------------------------------------------------------------------


def test_nothing_goes_by_the_wall_clock() -> None:
    """Times that are measured are monotonic; what the calendar says is written down for people, in these places.

    A server's Retry-After can be a date.
    """
    source = Path(cli.__file__).parent.parent
    uses = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "time.time(" in line or "datetime.now(" in line or ".today(" in line
    }
    written = {"results.py", "files.py", "report/html.py", "runs/training_progress.py", "runs/run_status.py"}
    assert uses == written | {"endpoint.py"}
