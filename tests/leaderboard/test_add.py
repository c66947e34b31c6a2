"""Adding results to a board: what becomes an entry, and every mistake in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from board_samples import SHA, board, entry, results

from holdfast.cli import main
from holdfast.leaderboard import board as boards
from holdfast.leaderboard.board import without_places
from holdfast.leaderboard.entry import published_folder, read_entry
from holdfast.leaderboard.suite_run import MARK
from holdfast.results import read_result, write_result

WORDS = ["--name", "mine", "--licence", "MIT"]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    board(tmp_path / "board", entry("other", model_sha256="b" * 64))
    return results(tmp_path / "measured")


def _add(tmp_path: Path, *words: str) -> int:
    return main(["leaderboard", "add", str(tmp_path / "measured"), *WORDS, "--board", str(tmp_path / "board"), *words])


def test_an_entry_holds_what_decides_it_and_no_places(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _add(tmp_path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    path = tmp_path / "board/mine.json"
    found = read_entry(path)
    assert told["entry"] == json.loads(path.read_text())
    assert found["encoder"]["source"] == "me/mine"
    assert found["encoder"]["licence"] == "MIT"
    assert found["encoder"]["model_sha256"] == SHA
    assert found["seeds"] == [42]
    assert set(found["results"]) == {"own", "similarity", "retrieval", "transfer", "audit", "cost"}
    assert found["command"] == "holdfast leaderboard run mine --output measured"
    assert "/home" not in path.read_text()
    assert str(tmp_path) not in path.read_text()
    page = (tmp_path / "board/index.html").read_text(encoding="utf-8")
    assert 'id="entry-mine"' in page
    assert 'id="entry-other"' in page


def test_a_board_that_is_not_there_is_made_with_the_published_entries(tmp_path: Path) -> None:
    results(tmp_path / "measured")
    assert _add(tmp_path) == 0
    published = {path.name: path.read_bytes() for path in published_folder().glob("*.json")}
    there = {path.name: path.read_bytes() for path in (tmp_path / "board").glob("*.json")}
    assert there.pop("mine.json")
    assert there == published


def test_a_board_is_begun_with_all_published_entries_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    whole = boards.write_entry

    def stopped(folder: Path, entry: Any) -> Path:
        written.append(entry["name"])
        if len(written) == 2:
            raise KeyboardInterrupt
        return whole(folder, entry)

    monkeypatch.setattr(boards, "write_entry", stopped)
    with pytest.raises(KeyboardInterrupt):
        boards._begin_board(tmp_path / "new" / "board", [{"name": name} for name in "abc"])
    assert not list((tmp_path / "new").iterdir())
    monkeypatch.setattr(boards, "write_entry", whole)
    boards._begin_board(tmp_path / "new" / "board", [{"name": name} for name in "abc"])
    assert sorted(path.name for path in (tmp_path / "new" / "board").iterdir()) == ["a.json", "b.json", "c.json"]


def test_a_local_folder_is_no_name_for_others(tmp_path: Path) -> None:
    board(tmp_path / "board", entry("other", model_sha256="b" * 64))
    results(tmp_path / "measured", model="/home/someone/model")
    assert _add(tmp_path) == 0
    assert read_entry(tmp_path / "board/mine.json")["encoder"]["source"] == "folder"


def _changed(part: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change a result as a run with other options would have written it."""

    def of(folder: Path) -> None:
        path = folder / f"{part}.json"
        result = read_result(path)
        change(result)
        write_result(path, result)

    return of


def _by_hand(folder: Path) -> None:
    path = folder / "transfer.json"
    path.write_text(path.read_text().replace('"accuracy": ', '"accuracy": 9', 1))


MISTAKES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "by hand": (_by_hand, "transfer.json: was changed after it was written (its content_sha256 differs)"),
    "missing": (lambda folder: (folder / "audit.json").unlink(), "the part audit is missing"),
    "of something else": (
        _changed("own", lambda r: r.pop(MARK)),
        "own.json: not a result of `holdfast leaderboard run`",
    ),
    "suite": (
        _changed("own", lambda r: r[MARK].update(suite_sha256="0" * 64)),
        "own.json: measured on suite 1 (sha256 000000000000), this is suite 1",
    ),
    "files": (
        _changed("cost", lambda r: r.update(model_files={"1_Pooling/config.json": "c"})),
        "cost.json: other files of the model than in",
    ),
    "model": (_changed("cost", lambda r: r.update(model_sha256="c" * 64)), "cost.json: other weights than in"),
    "backend": (
        _changed("cost", lambda r: r["protocol"].update(backend={"name": "onnx"})),
        "cost.json: other backend than in",
    ),
    "seed": (_changed("audit", lambda r: r.update(seed=7)), "audit.json: its seed is 7, the suite's 42"),
    "limit": (
        _changed("transfer", lambda r: r["protocol"].update(limit=50)),
        "transfer.json: its limit is 50, the suite's 500",
    ),
    "examples": (
        _changed("audit", lambda r: r["protocol"].update(examples=5)),
        "audit.json: its examples is 5, the suite's 100",
    ),
    "data": (
        _changed("similarity", lambda r: r["results"][0].update(data_sha256="d" * 64)),
        "similarity.json: the data of sts12/test is not the suite's (sha256 dddddddddddd…",
    ),
    "texts": (
        _changed("audit", lambda r: r["protocol"]["texts"].update(sha256="e" * 64)),
        "audit.json: its texts are not the suite's",
    ),
    "row": (_changed("similarity", lambda r: r["results"].pop(0)), "similarity.json: the row sts12/test is missing"),
    "item": (
        _changed("audit", lambda r: r["results"][0].update(verdict="absent", told="no WordNet")),
        "was not measured: no WordNet",
    ),
    "resource": (
        _changed("audit", lambda r: r["protocol"]["resources"].update(tagger="other")),
        "audit.json: its resource tagger is other, the suite's textblob",
    ),
    "time": (
        _changed("own", lambda r: r["protocol"].update(left_out=["10 of 60 texts"])),
        "own.json: it left out 10 of 60 texts",
    ),
    "range": (
        _changed(
            "audit",
            lambda r: next(x for x in r["results"] if x["task"] == "audit-meaning")["metrics"].update(
                p_hold_nearer_high=1.7
            ),
        ),
        "move: 40 (36 to 170) is outside of -100 to 100",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(
    mistake: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, line = MISTAKES[mistake]
    make(made)
    assert _add(tmp_path) == 2
    lines = [each for each in capsys.readouterr().err.splitlines() if each.startswith("holdfast: ")]
    assert len(lines) == 1, lines
    assert line in lines[0]
    assert not (tmp_path / "board/mine.json").exists()
    assert not (tmp_path / "board/index.html").exists()


def test_each_mistake_has_its_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("seed", "limit", "data"):
        MISTAKES[name][0](made)
    assert _add(tmp_path, "--base", "othr", "--source", "/home/x") == 2
    lines = [each for each in capsys.readouterr().err.splitlines() if each.startswith("holdfast: ")]
    assert len(lines) == 5
    assert "--base othr: there is no such entry: other" in lines[0]
    assert "--source /home/x is a place on this machine" in lines[1]


def test_names_and_weights_are_taken_once(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _add(tmp_path) == 0
    capsys.readouterr()
    assert _add(tmp_path) == 2
    assert "there is an entry of this name" in capsys.readouterr().err
    assert _add(tmp_path, "--replace") == 0
    words = ["--name", "again", "--licence", "MIT", "--board", str(tmp_path / "board")]
    assert main(["leaderboard", "add", str(made), *words]) == 2
    assert "the entry mine has the same weights and form" in capsys.readouterr().err
    assert (
        main(["leaderboard", "add", str(made), *WORDS[2:], "--name", "../x", "--board", str(tmp_path / "board")]) == 2
    )
    assert "--name '../x'" in capsys.readouterr().err


def test_files_may_be_named_one_by_one(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(map(str, made.glob("*.json")))
    words = [*WORDS, "--board", str(tmp_path / "board")]
    assert main(["leaderboard", "add", *files, files[0], *words]) == 2
    assert "the part audit is given 2 times" in capsys.readouterr().err
    assert main(["leaderboard", "add", *files, *words]) == 0
    shutil.rmtree(made)
    made.mkdir()
    assert main(["leaderboard", "add", str(made), *words]) == 2
    assert "has no results of the leaderboard" in capsys.readouterr().err


def test_an_entry_changed_by_hand_is_refused(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "board/other.json"
    path.write_text(path.read_text().replace("Apache-2.0", "MIT"))
    for words in (["add", str(made), *WORDS], ["render"]):
        assert main(["leaderboard", *words, "--board", str(tmp_path / "board")]) == 2
        assert "other.json was changed after it was written" in capsys.readouterr().err
    assert main(["leaderboard", "render", "--board", str(tmp_path / "none")]) == 2
    assert "none is no board" in capsys.readouterr().err


def test_an_entry_of_another_suite_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = entry("old")
    old["protocol"]["suite_sha256"] = "0" * 64
    board(tmp_path, old)
    assert main(["leaderboard", "render", "--board", str(tmp_path)]) == 2
    assert "of suite 1 with another hash" in capsys.readouterr().err


def test_places_in_a_command() -> None:
    assert without_places("holdfast leaderboard run ~/a/b --output ../x/y c/d --prompt 'query: '") == (
        "holdfast leaderboard run b --output y c/d --prompt 'query: '"
    )
    assert without_places("holdfast leaderboard run m --output=/home/me/out --config=~/my.yaml --prompt='a/ b'") == (
        "holdfast leaderboard run m --output=out --config=my.yaml '--prompt=a/ b'"
    )
