"""The journal: nothing that was finished is lost, nothing of another run is taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal import Journal, journals
from holdfast.errors import UserError

SETTINGS = {"task": "sst2", "seed": 1}


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
        first.add(attempt(number))
    first.add(attempt(0, "typos"))
    again = Journal(output, SETTINGS)
    done = again.open(resume=True)
    assert done == {**{("pwws", n): attempt(n) for n in range(3)}, ("typos", 0): attempt(0, "typos")}
    again.add(attempt(7))
    assert ("pwws", 7) in Journal(output, SETTINGS).open(resume=True)
    again.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    output = tmp_path / "r.json"
    journal = Journal(output, SETTINGS)
    journal.open(resume=False)
    for number in range(3):
        journal.add(attempt(number))
    (path,) = journals(output)
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(output, SETTINGS)
    assert set(again.open(resume=True)) == {("pwws", 0), ("pwws", 1)}
    again.add(attempt(2))
    assert set(Journal(output, SETTINGS).open(resume=True)) == {("pwws", n) for n in range(3)}


def test_an_unfinished_run_is_not_overwritten(tmp_path: Path) -> None:
    Journal(tmp_path / "r.json", SETTINGS).open(resume=False)
    with pytest.raises(UserError, match="--resume"):
        Journal(tmp_path / "r.json", SETTINGS).open(resume=False)


def test_a_journal_of_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    Journal(tmp_path / "r.json", SETTINGS).open(resume=False)
    with pytest.raises(UserError, match="another seed"):
        Journal(tmp_path / "r.json", {**SETTINGS, "seed": 2}).open(resume=True)


def test_a_damaged_line_is_told_by_its_number(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r.json", SETTINGS)
    journal.open(resume=False)
    journal.add(attempt(1))
    (path,) = journals(tmp_path / "r.json")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{broken", lines[1]]) + "\n")
    with pytest.raises(UserError, match=":2: damaged"):
        Journal(tmp_path / "r.json", SETTINGS).open(resume=True)


def test_processes_share_and_wait(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    first, second = (Journal(output, SETTINGS, rank=rank, world=2) for rank in (0, 1))
    first.open(resume=False)
    assert second.open(resume=False) == {}
    first.add(attempt(0))
    second.add(attempt(1))
    assert not first.finished(1)
    second.end()
    assert first.finished(1)
    assert set(first.all()) == {("pwws", 0), ("pwws", 1)}
    with pytest.raises(UserError, match="--resume"):
        Journal(output, SETTINGS, rank=1, world=2).open(resume=False)
    # One process alone goes on with what two have done, and a share that had ended is open again.
    alone = Journal(output, SETTINGS, rank=1)
    assert set(alone.open(resume=True)) == {("pwws", 0), ("pwws", 1)}
    assert not first.finished(1)
