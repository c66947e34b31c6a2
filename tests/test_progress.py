"""Lines and bars of long work, by a clock of the tests."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from holdfast.progress import Reporter, Stage, duration, stage


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def test_a_stage_speaks_when_it_starts_and_then_every_few_seconds(clock: Clock) -> None:
    message = io.StringIO()
    with stage(Console(file=message, width=200), "reading [b].txt", unit="sentences") as reading:
        assert message.getvalue() == "reading [b].txt\n"
        for done in range(1, 13):
            clock.seconds += 1.0
            reading.update(100 * done)
    assert message.getvalue().splitlines()[1:] == [
        f"reading [b].txt: {done} sentences  100 sentences/s  {seconds} s so far"
        for done, seconds in (("300", 3), ("600", 6), ("900", 9), ("1,200", 12))
    ]


def test_a_stage_with_a_total_tells_the_note_and_the_time_left(clock: Clock) -> None:
    message = io.StringIO()
    with stage(Console(file=message, width=200), "training", unit="steps", total=100) as training:
        training.restart(total=100, first=60)
        clock.seconds += 8.0
        training.update(64, note="loss 0.5")
    # Four steps in eight seconds: those before were made by the run that is continued.
    assert message.getvalue().splitlines() == [
        "training: 0/100 steps",
        "training: 64/100 steps  0.50 steps/s  loss 0.5  ETA 72 s",
    ]


@pytest.mark.parametrize("console", [None, Console(quiet=True), Reporter(quiet=True)])
def test_a_stage_is_silent_where_nobody_listens(
    console: Console | None, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with stage(console, "reading") as reading:
        clock.seconds += 60.0
        reading.update(5, 10)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_bar_with_the_same_words(clock: Clock) -> None:
    message = io.StringIO()
    console = Console(file=message, width=120, force_terminal=True, color_system=None, legacy_windows=False)
    with stage(console, "outer"), stage(console, "encoding", unit="texts", total=10) as encoding:
        clock.seconds += 2.0
        encoding.update(5, note="of two")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", message.getvalue())
    assert "encoding" in plain
    assert "5/10 texts  2.50 texts/s  of two  ETA 2 s" in plain


def test_a_reporter_knows_its_stages_also_after_an_error(clock: Clock) -> None:
    reporter = Reporter(file=io.StringIO())
    known = []

    def work() -> None:
        with stage(reporter, "outer") as outer:
            with stage(reporter, "inner") as inner:
                known.append(reporter.stages == [outer, inner])
            known.append(reporter.stages == [outer])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert known == [True, True]
    assert reporter.stages == []
    clock.seconds += 3.0
    reporter.print("x")
    assert reporter.printed == clock.seconds


def test_before_anything_is_done_the_time_so_far_is_told(clock: Clock) -> None:
    waiting = Stage(Console(quiet=True), "loading")
    clock.seconds += 7.0
    assert waiting.text() == "7 s so far"


def test_when_all_is_done_no_time_left_is_told_and_what_comes_next_has_its_name(clock: Clock) -> None:
    message = io.StringIO()
    with stage(Console(file=message, width=200), "encoding", unit="texts", announce=False) as encoding:
        clock.seconds += 5.0
        encoding.update(10, 10)
        encoding.relabel("fitting")
        clock.seconds += 6.0
        encoding.print_line()
    assert message.getvalue().splitlines() == [
        "encoding: 10/10 texts  2.00 texts/s  5 s so far",
        "fitting",
        "fitting: 6 s so far",
    ]


@pytest.mark.parametrize(("seconds", "message"), [(0, "0 s"), (99, "99 s"), (150, "2.5 min"), (9000, "2.5 h")])
def test_durations(seconds: float, message: str) -> None:
    assert duration(seconds) == message
