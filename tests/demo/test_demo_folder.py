"""A demo's folder belongs to one demo: of its settings, its model and its texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.demo.demo_folder import RECORD_FILE, prepare, refuse_finished
from holdfast.errors import UserError

SETTINGS = {"methods": False, "steps": 2}


def made(folder: Path, *, sha: str = "abc", text: str = "A sentence.\n", **changed: object) -> None:
    prepare(folder, {**SETTINGS, **changed}, sha, {"corpus.txt": text})


def test_a_stopped_demo_is_continued(tmp_path: Path) -> None:
    made(tmp_path / "demo")
    made(tmp_path / "demo")
    assert (tmp_path / "demo" / "corpus.txt").read_text() == "A sentence.\n"


def test_a_demo_of_other_settings_is_not_continued(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(UserError, match="a demo with model abc, and model is now abd"):
        made(tmp_path, sha="abd")
    with pytest.raises(UserError, match="a demo with methods False, and methods is now True"):
        made(tmp_path, methods=True)
    with pytest.raises(UserError, match=r"a demo with corpus .* and corpus is now"):
        made(tmp_path, text="Another sentence.\n")
    assert (tmp_path / "corpus.txt").read_text() == "A sentence.\n"


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("my own")
    with pytest.raises(UserError, match="holds other files"):
        made(tmp_path)
    assert (tmp_path / "corpus.txt").read_text() == "my own"


@pytest.mark.parametrize("damaged", ["[]", "null", '"demo"', "7"])
def test_a_record_that_is_no_object_is_refused(tmp_path: Path, damaged: str) -> None:
    made(tmp_path)
    (tmp_path / RECORD_FILE).write_text(damaged)
    with pytest.raises(UserError, match=r"demo-run\.json is damaged: choose another folder"):
        made(tmp_path)


def test_a_finished_demo_is_not_repeated(tmp_path: Path) -> None:
    refuse_finished(tmp_path)
    (tmp_path / "report.html").touch()
    with pytest.raises(UserError, match="is finished"):
        refuse_finished(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        refuse_finished(tmp_path / "report.html")
