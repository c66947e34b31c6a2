"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.files import atomic_path, telling_write_errors, write_json, write_text


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
    with pytest.raises(RuntimeError, match="a bug"), telling_write_errors(tmp_path / "x"):
        raise RuntimeError("a bug")


def test_json_refuses_what_is_not_a_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"score": float("nan")})
    assert list(tmp_path.iterdir()) == []
    write_json(tmp_path / "x.json", {"score": 1.5})
    assert json.loads((tmp_path / "x.json").read_text()) == {"score": 1.5}


def test_user_errors_are_one_line() -> None:
    assert str(UserError("two\n  lines")) == "two lines"


def test_nearest_names() -> None:
    assert did_you_mean("simcs", ["simcse", "robustembed"]) == " (did you mean 'simcse'?)"
    assert did_you_mean("zzz", ["simcse"]) == ""
    assert one_of("--x", "a", ("a", "b")) == "a"
    with pytest.raises(UserError, match=r"--x does not take 'abb'.* it is one of abc, d"):
        one_of("--x", "abb", ("abc", "d"))
