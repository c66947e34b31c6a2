"""The journal: nothing that was finished is lost, nothing of another run is taken over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal import Journal, journals
from holdfast.errors import UserError

SETTINGS = {"task": "sst2", "seed": 1}


SECONDS = 1.0


def attempt(number: int, recipe: str = "pwws") -> Attempt:
    return Attempt(
        number,
        recipe,
        "succeeded",
        "the \u2028dog\n\x00\u00e9",
        "the cat",
        label=1,
        changed=((1, "dog", "c\U0001f600t"),),
        before={"label": 1, "value": 0.9, "correct": True},
        queries=3,
    )


def test_a_journal_is_read_back_whole(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    first = Journal(output, SETTINGS)
    assert first.open(resume=False) == {}
    for number in range(3):
        first.add(attempt(number), SECONDS)
    first.add(attempt(0, "typos"), SECONDS)
    again = Journal(output, SETTINGS)
    done = again.open(resume=True)
    assert done == {**{("pwws", n): attempt(n) for n in range(3)}, ("typos", 0): attempt(0, "typos")}
    again.add(attempt(7), SECONDS)
    assert ("pwws", 7) in Journal(output, SETTINGS).open(resume=True)
    again.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_seconds_of_a_run_that_was_killed_are_kept(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    for rank, seconds in ((0, (2.0, 5.0)), (1, (4.0, 9.0))):
        journal = Journal(output, SETTINGS, rank=rank, world=2)
        journal.open(resume=True)
        for number, spent in enumerate(seconds):
            journal.add(attempt(2 * number + rank), spent)
    journal.add(attempt(1, "typos"), 0.5)
    again = Journal(output, SETTINGS, rank=0, world=2)
    done = again.open(resume=True)
    assert done["pwws", 3] == attempt(3)
    assert again.spent == {"pwws": 5.0}
    assert again.seconds() == {"pwws": 9.0, "typos": 0.5}, "side by side: what the longer one took"


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    output = tmp_path / "r.json"
    journal = Journal(output, SETTINGS)
    journal.open(resume=False)
    for number in range(3):
        journal.add(attempt(number), SECONDS)
    (path,) = journals(output)
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(output, SETTINGS)
    assert set(again.open(resume=True)) == {("pwws", 0), ("pwws", 1)}
    again.add(attempt(2), SECONDS)
    assert set(Journal(output, SETTINGS).open(resume=True)) == {("pwws", n) for n in range(3)}


def test_an_unfinished_run_is_not_overwritten(tmp_path: Path) -> None:
    Journal(tmp_path / "r.json", SETTINGS).open(resume=False)
    with pytest.raises(UserError, match="--resume"):
        Journal(tmp_path / "r.json", SETTINGS).open(resume=False)


def test_a_journal_of_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    Journal(tmp_path / "r.json", SETTINGS).open(resume=False)
    with pytest.raises(UserError, match=r"belongs to the attack [0-9a-f]{12}, and this is the attack .*another seed"):
        Journal(tmp_path / "r.json", {**SETTINGS, "seed": 2}).open(resume=True)


@pytest.mark.parametrize("line", [1, 2, 4])
def test_every_bit_of_a_line_counts(tmp_path: Path, line: int) -> None:
    """Whichever bit is turned, the line is told, its example is redone, and nothing else is lost."""
    output = tmp_path / "r.json"
    journal = Journal(output, SETTINGS)
    journal.open(resume=False)
    for number in range(4):
        journal.add(attempt(number), SECONDS)
    (path,) = journals(output)
    lines = path.read_bytes().split(b"\n")
    for bit in range(0, 8 * len(lines[line - 1]), 13):
        damaged = bytearray(lines[line - 1])
        damaged[bit // 8] ^= 1 << bit % 8
        if b"\n" in damaged:  # that makes two lines of it, both damaged
            continue
        path.write_bytes(b"\n".join([*lines[: line - 1], bytes(damaged), *lines[line:]]))
        message: list[str] = []
        done = Journal(output, SETTINGS).open(resume=True, notify=message.append)
        again = "0 examples" if line == 1 else "1 example"
        assert message == [f"{path}:{line} is damaged: {again} will be attacked again"], damaged
        assert done == {("pwws", n): attempt(n) for n in range(4) if n != line - 2}
        message.clear()
        assert Journal(output, SETTINGS).open(resume=True, notify=message.append) == done
        assert message == [], "what was damaged is taken out"


def test_several_damaged_lines_are_one_line(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    journal = Journal(output, SETTINGS)
    journal.open(resume=False)
    for number in range(4):
        journal.add(attempt(number), SECONDS)
    (path,) = journals(output)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{broken", lines[2], b"\xff\xfe", b"[" * 100_000, lines[4], b""]))
    message: list[str] = []
    assert set(Journal(output, SETTINGS).open(resume=True, notify=message.append)) == {("pwws", 1), ("pwws", 3)}
    assert message == [f"{path}:2 (and 2 more lines) is damaged: 3 examples will be attacked again"]


def test_a_row_of_another_run_is_not_taken_over(tmp_path: Path) -> None:
    """Two runs that wrote to one file: what the other has finished is not of this run."""
    output = tmp_path / "r.json"
    for settings, number in ((SETTINGS, 1), ({**SETTINGS, "seed": 2}, 2)):
        journal = Journal(output.with_name(f"{number}.json"), settings)
        journal.open(resume=False)
        journal.add(attempt(number), SECONDS)
    first, second = ((next(journals(tmp_path / f"{n}.json"))).read_bytes() for n in (1, 2))
    own = next(journals(tmp_path / "1.json"))
    own.write_bytes(first + second.split(b"\n")[1] + b"\n")
    with pytest.raises(UserError, match=rf"{own}:3 belongs to the attack \w{{12}}, and this is the attack \w{{12}}:"):
        Journal(tmp_path / "1.json", SETTINGS).open(resume=True)
    assert own.read_bytes().count(b"\n") == 3, "nothing is taken out"


def test_lines_of_an_earlier_version_name_no_run_and_are_taken(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    journal = Journal(output, SETTINGS)
    journal.open(resume=False)
    journal.add(attempt(1), SECONDS)
    (path,) = journals(output)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line.pop("run") for line in lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    message: list[str] = []
    assert set(Journal(output, SETTINGS).open(resume=True, notify=message.append)) == {("pwws", 1)}
    assert message == []


def test_processes_share_and_wait(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    first, second = (Journal(output, SETTINGS, rank=rank, world=2) for rank in (0, 1))
    first.open(resume=False)
    assert second.open(resume=False) == {}
    first.add(attempt(0), SECONDS)
    second.add(attempt(1), SECONDS)
    assert not first.finished(1, [("pwws", 1)])
    second.end()
    assert first.finished(1, [("pwws", 1)])
    assert set(first.all()) == {("pwws", 0), ("pwws", 1)}
    with pytest.raises(UserError, match="--resume"):
        Journal(output, SETTINGS, rank=1, world=2).open(resume=False)
    # One process alone goes on with what two have done, and a share that had ended is open again.
    alone = Journal(output, SETTINGS, rank=1)
    assert set(alone.open(resume=True)) == {("pwws", 0), ("pwws", 1)}
    assert not first.finished(1, [("pwws", 1)])


def test_a_share_among_more_processes_is_another_one(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    second = Journal(output, SETTINGS, rank=1, world=2)
    second.open(resume=False)
    second.end()
    assert Journal(output, SETTINGS, rank=0, world=2).finished(1, [])
    assert not Journal(output, SETTINGS, rank=0, world=3).finished(1, [])


def test_an_old_end_of_a_share_that_has_been_damaged_since_is_none(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    before = Journal(output, SETTINGS, rank=1, world=2)
    before.open(resume=False)
    for number in (1, 3):
        before.add(attempt(number), SECONDS)
    before.end()
    journal = next(journals(output))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1].replace(b"cat", b"rat", 1) + b"".join(lines[2:]))
    share = [("pwws", 1), ("pwws", 3)]
    first = Journal(output, SETTINGS, rank=0, world=2)
    assert set(first.open(resume=True)) == {("pwws", 3)}
    assert not first.finished(1, share), "the other process has not yet read what is damaged"
    again = Journal(output, SETTINGS, rank=1, world=2)
    again.open(resume=True)
    again.add(attempt(1), SECONDS)
    assert not first.finished(1, share)
    again.end()
    assert first.finished(1, share)
