"""The published entries: of the present suite, on the page, and measured again where the weights are at hand."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest
from board_samples import entry

from holdfast.cli import main
from holdfast.leaderboard.board import render
from holdfast.leaderboard.entry import entries_in, published_folder, write_entry
from holdfast.leaderboard.entry_encoders import at_hand
from holdfast.leaderboard.suite import the_suite

ROOT = Path(__file__).parents[2]
ENTRIES = entries_in(published_folder())


def test_the_published_entries_are_of_the_suite_and_hold_no_places() -> None:
    assert len(entries_in(published_folder(), the_suite())) >= 8
    for path in published_folder().glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(work|home|tmp|root|usr|Users)/", text), path.name


def test_the_published_page_is_that_of_the_entries(tmp_path: Path) -> None:
    for path in published_folder().glob("*.json"):
        shutil.copy(path, tmp_path)
    assert render(tmp_path).read_bytes() == (ROOT / "docs/leaderboard/index.html").read_bytes(), (
        "write it again: holdfast leaderboard render --board docs/leaderboard"
    )


def test_bases_are_entries() -> None:
    assert {each["encoder"]["base"] for each in ENTRIES.values()} - {None} <= set(ENTRIES)


def test_the_table_of_the_documentation_is_that_of_the_entries() -> None:
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    table = page.partition("<!-- entries -->\n")[2].partition("<!-- /entries -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    header, lines = rows[0], rows[2:]
    titles = {title: name for name, title in the_suite().titles().items()}
    assert {line[0].strip("`") for line in lines} == set(ENTRIES)
    for line in lines:
        scores = ENTRIES[line[0].strip("`")]["scores"]
        for title, cell in zip(header[1:], line[1:], strict=True):
            if title not in titles:
                continue
            score = scores.get(titles[title])
            shown = "" if score is None else f"{score['value']:.1f} ({score['low']:.1f}–{score['high']:.1f})"
            assert cell == shown or cell == shown.partition(" ")[0], (line[0], title)


def test_a_random_entry_is_measured_again(capsys: pytest.CaptureFixture[str]) -> None:
    """The part without data, of an entry whose weights are at hand: another one in each run."""
    names = sorted(at_hand(published_folder()))
    assert {"bundled", "hashing"} <= set(names)
    assert {ENTRIES[name]["encoder"]["backend"] for name in names} == {"torch"}
    name = random.choice(names)
    print(f"drawn: {name}")
    assert main(["leaderboard", "check", name, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert told["equal"]
    assert {row["item"] for row in told["items"]} == set(ENTRIES[name]["own"])


def test_a_value_that_differs_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = dict(ENTRIES["hashing"])
    own = {item: dict(value) for item, value in held["own"].items()}
    own["typing"]["value"] += 0.6  # the tolerance of a mean is 0.5
    own["number"]["value"] += 100.0 * 1.5 / own["number"]["n"]  # that of a share two texts
    write_entry(tmp_path, {**held, "own": own})
    assert main(["leaderboard", "check", "hashing", "--board", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert "1 of 10 values differ from its entry: typing" in captured.err
    assert captured.out.count("differs") == 1


def test_what_cannot_be_checked_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_entry(tmp_path, entry("words", kind="search"))
    assert main(["leaderboard", "check", "--board", str(tmp_path)]) == 2
    assert "has its weights at hand" in capsys.readouterr().err
    assert main(["leaderboard", "check", "words", "--board", str(tmp_path)]) == 2
    assert "words has no part 'own'" in capsys.readouterr().err
    old = entry("old", source="bundled")
    old["protocol"]["suite_sha256"] = "0" * 64
    write_entry(tmp_path, old)
    assert main(["leaderboard", "check", "old", "--board", str(tmp_path)]) == 2
    assert "old is of another suite" in capsys.readouterr().err
    assert main(["leaderboard", "check", "--seed", "-1", "--board", str(tmp_path)]) == 2
    assert "--seed must be from 0" in capsys.readouterr().err
