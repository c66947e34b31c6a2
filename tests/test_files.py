"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors import SafetensorError

from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.files import (
    atomic_path,
    exclusive,
    locked,
    one_line_write_errors,
    read_object,
    sha256,
    write_json,
    write_text,
)


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "old")

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"

    def fail() -> None:
        with atomic_path(target):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UserError, match=r"no space left on the disk while writing .*file\.txt"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write_text(tmp_path / "file" / "below.txt", "text")


def test_other_errors_pass_through(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a bug"), one_line_write_errors(tmp_path / "x"):
        raise RuntimeError("a bug")


def test_json_refuses_what_is_not_a_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"score": float("nan")})
    assert list(tmp_path.iterdir()) == []
    write_json(tmp_path / "x.json", {"score": 1.5})
    assert json.loads((tmp_path / "x.json").read_text()) == {"score": 1.5}


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, synchronised = tmp_path / "file", []
    monkeypatch.setattr(os, "fsync", lambda handle: synchronised.append((os.fstat(handle).st_ino, target.exists())))
    with atomic_path(target) as temporary:
        temporary.write_text("whole")
    assert synchronised == [(target.stat().st_ino, False)]


@pytest.mark.parametrize("text", [None, "", '{"a": 1', "[1]", "[" * 100_000])
def test_a_note_that_is_damaged_says_nothing(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "note.json").write_text(text)
    assert read_object(tmp_path / "note.json") == {}


def test_a_hash_is_of_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(3 << 20))
    assert sha256(tmp_path / "file") == hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest()


def test_what_a_run_writes_to_is_found_however_its_settings_are_given(tmp_path: Path) -> None:
    @exclusive(lambda path: locked(path, path))
    def run(path: Path, *, more: int = 0) -> bool:
        return path.exists()

    assert run(tmp_path / "lock")
    assert run(path=tmp_path / "lock", more=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "no space left on the disk while writing"),
        (OSError(errno.EACCES, "Permission denied"), "cannot write .*: Permission denied"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), "no space left on the disk"),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 128"), "cannot write"),
        (RuntimeError("PytorchStreamWriter failed writing file data/0"), "cannot write .*: PytorchStreamWriter"),
    ],
)
def test_libraries_that_cannot_write_are_a_line(error: Exception, line: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=line), one_line_write_errors(tmp_path / "file"):
        raise error


def test_a_disk_on_which_nothing_fits_is_full_whatever_a_library_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=4096))
    with pytest.raises(UserError, match="no space left on the disk"), one_line_write_errors(tmp_path / "file"):
        raise RuntimeError("PytorchStreamWriter failed writing file data/0")


def test_user_errors_are_one_line() -> None:
    assert str(UserError("two\n  lines")) == "two lines"


def test_nearest_names() -> None:
    assert did_you_mean("simcs", ["simcse", "robustembed"]) == " (did you mean 'simcse'?)"
    assert did_you_mean("zzz", ["simcse"]) == ""
    assert one_of("--x", "a", ("a", "b")) == "a"
    with pytest.raises(UserError, match=r"--x does not take 'abb'.* it is one of abc, d"):
        one_of("--x", "abb", ("abc", "d"))
