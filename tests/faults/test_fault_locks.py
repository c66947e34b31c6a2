"""Two runs never write to one output; a run that was killed blocks nobody."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from holdfast.attacks.attack_run import examples_path
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.files import atomic_path, locked, output_lock
from holdfast.runs.run_folder import LOCK_FILE, alone


def hold_in_child(lock: Path, target: Path) -> int:
    """A process that holds a lock until it is killed; its number."""
    ready, message = os.pipe()
    child = os.fork()
    if child == 0:
        with locked(lock, target):
            os.write(message, b"x")
            signal.pause()
        os._exit(0)
    os.close(message)
    assert os.read(ready, 1) == b"x"
    os.close(ready)
    return child


def test_the_second_is_told_who_holds_it_and_a_kill_lets_go(tmp_path: Path) -> None:
    lock = tmp_path / LOCK_FILE
    child = hold_in_child(lock, tmp_path)
    try:
        with pytest.raises(UserError, match=rf"in use by process {child} on .+ since 20.+: wait"), alone(tmp_path):
            raise AssertionError("both are in")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert lock.exists(), "a killed process cleans nothing up"
    with alone(tmp_path):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_its_holder_removes_is_not_mistaken_for_a_free_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and locking it, its holder may end and another run begin with a new file."""
    import fcntl

    lock = tmp_path / "lock"
    flock, others = fcntl.flock, []

    def late(handle: int, how: int) -> None:
        if not others:
            lock.unlink()
            others.append(os.open(lock, os.O_RDWR | os.O_CREAT))
            flock(others[0], fcntl.LOCK_EX)
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(UserError, match="in use by another process"), locked(lock, tmp_path):
        raise AssertionError("the lock is on a file that is gone")
    os.close(others[0])


def test_what_a_lock_says_is_not_mixed_with_what_was_there(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("the note of a run with a longer name" * 20)
    with locked(lock, tmp_path):
        assert json.loads(lock.read_text())["pid"] == os.getpid()


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "lock").symlink_to(precious)
    with pytest.raises(UserError, match="cannot write"), locked(tmp_path / "lock", tmp_path):
        pass
    assert precious.read_text() == "kept"


def test_folders_that_were_made_for_nothing_are_removed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a mistake"), alone(tmp_path / "a" / "b"):
        raise UserError("a mistake")
    with output_lock(tmp_path / "c" / "r.json"):
        assert (tmp_path / "c" / ".r.json.lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_a_result_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with output_lock(tmp_path / "out"), output_lock(tmp_path / "out"):
        assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_only_the_first_of_several_processes_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with alone(tmp_path / "out"):
        monkeypatch.setenv("RANK", "1")
        with alone(tmp_path / "out"), output_lock(tmp_path / "r.json"):
            assert not (tmp_path / ".r.json.lock").exists()


def test_results_whose_names_differ_have_examples_of_their_own() -> None:
    assert examples_path(Path("runs/r.json")) == Path("runs/r.examples.jsonl")
    assert examples_path(Path("runs/r.v1")) == Path("runs/r.v1.examples.jsonl")
    assert examples_path(Path("runs/r.v2.json")) == Path("runs/r.v2.examples.jsonl")


def test_what_a_killed_writer_left_is_removed_and_nobody_elses(tmp_path: Path) -> None:
    for name in ("r[1].json", ".r[1].json.journal-000", "r[1].examples.jsonl", "r[1].json.bak", "r1.json", "r.json"):
        with atomic_path(tmp_path / name) as temporary:
            (temporary.parent / "kept").mkdir(exist_ok=True)
            os.link(temporary, tmp_path / "kept" / temporary.name)
        (tmp_path / name).unlink()
    for left in (tmp_path / "kept").iterdir():
        left.rename(tmp_path / left.name)
    (tmp_path / "kept").rmdir()
    with output_lock(tmp_path / "r[1].json"):
        pass
    left = sorted(path.name.rsplit(".", 2)[0] for path in tmp_path.iterdir())
    assert left == [".r.json", ".r1.json", ".r[1].json.bak"]
    with alone(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


FOLDERS = {
    "train": ["simcse", "--model", "m", "--corpus", "c.txt"],
    "finetune": ["m", "--task", "sst2"],
    "pretrain": ["--corpus", "c.txt"],
    "baseline": ["cls", "--model", "m"],
    "demo": [],
}
FILES = {
    "attack": ["m", "--task", "sst2"],
    "evaluate": ["m"],
    "audit": ["m"],
    "compare": ["a.json", "b.json"],
    "transfer": ["a.json"],
    "masks": ["m", "--text", "a text"],
}


@pytest.mark.parametrize("verb", [*FOLDERS, *FILES])
def test_every_verb_refuses_an_output_in_use(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = tmp_path / ("out" if verb in FOLDERS else "out.json")
    held = alone(output) if verb in FOLDERS else output_lock(output)
    with held:
        code = main([verb, *(FOLDERS | FILES)[verb], "--output", str(output)])
    message = capsys.readouterr().err
    assert code == 2, message
    assert message.startswith(f"holdfast: {output} is in use by process {os.getpid()} on ")
    assert len(message.splitlines()) == 1
