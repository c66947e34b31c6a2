"""Progress of long work: a bar on a terminal, else a line when a stage starts and every few seconds after that.

A stage is a named part of the work, such as reading a corpus. The code that does the work calls `Stage.update`
repeatedly. During a call that takes minutes there are no updates: therefore the command line uses a `Reporter` as its
console, whose stages `holdfast.cli.heartbeat` prints again while nothing else is printed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.progress import Task as BarTask
from rich.text import Text

from holdfast.visible_console import VisibleConsole

SECONDS_BETWEEN_LINES = 3.0
"""A line should appear at least every five seconds; two seconds are a margin for a busy machine."""


class Stage:
    """A part of the work: name, progress and note.

    Args:
        console: console to draw on.
        label: name, such as "reading corpus.txt".
        unit: unit of the count, such as "sentences".
        total: total count; None: unknown, or nothing is counted.
    """

    def __init__(self, console: Console, label: str, *, unit: str = "", total: float | None = None) -> None:
        self.console, self.label, self.unit = console, label, unit
        self.total = total
        self.first: float = 0  # the count at the start of a resumed run
        self.done: float = 0
        self.note = ""
        self.printed_count: float | None = None  # the count when the last line was printed
        self.began = self._last_printed = time.monotonic()
        self._bar: Bar | None = None
        self._task = TaskID(0)

    @property
    def elapsed(self) -> float:
        """The seconds since the stage began."""
        return max(time.monotonic() - self.began, 1e-9)

    @property
    def share(self) -> float | None:
        """The share that is done, from 0 to 1; None: unknown."""
        if (remaining := self.remaining()) is not None:
            return remaining[0]
        return min(self.done / self.total, 1.0) if self.total else None

    def update(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Update the progress; without a terminal, print a line if the last one is some seconds old.

        Args:
            done: current count.
            total: total count; None: as before.
            note: further text, such as the loss; None: as before.
        """
        self.done = done
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        self.show()
        if not self.console.is_terminal and time.monotonic() - self._last_printed >= SECONDS_BETWEEN_LINES:
            self.print_line()

    def print_line(self) -> None:
        """Print a line with the progress."""
        self._last_printed, self.printed_count = time.monotonic(), self.done
        self.console.print(f"{self.label}: {self.text()}", highlight=False, markup=False)

    def text(self) -> str:
        """Return the progress as text: count, rate, note and time left."""
        parts = (self._count(), self.rate(), self.note, self._left())
        return "  ".join(part for part in parts if part) or f"{duration(self.elapsed)} so far"

    def _count(self) -> str:
        """Return the count and the total, as text."""
        if not self.total and not self.done:
            return ""
        return f"{self.done:,}{f'/{self.total:,}' if self.total else ''} {self.unit}".rstrip()

    def rate(self) -> str:
        """Return the rate in units per second, as text."""
        units = self.done - self.first
        return f"{digits(units / self.elapsed)} {self.unit}/s" if units > 0 and self.unit else ""

    def remaining(self) -> tuple[float, float] | None:
        """Return the share that is done and the seconds left; None if the count decides them."""
        return None

    def _left(self) -> str:
        """Return the estimated time left, as text; if it is unknown, the elapsed time."""
        if (remaining := self.remaining()) is not None:
            return f"ETA {duration(remaining[1])}"
        units = self.done - self.first
        if not self.total and not self.done:
            return ""
        if not self.total or units <= 0 or self.done >= self.total:
            return f"{duration(self.elapsed)} so far"
        return f"ETA {duration(self.elapsed / units * max(self.total - self.done, 0.0))}"

    def relabel(self, label: str) -> None:
        """Continue with a new label and without a count."""
        self.label, self.note = label, ""
        self.restart()
        if self._bar is not None:
            self._bar.update(self._task, description=label)
        else:
            self.console.print(label, highlight=False, markup=False)

    def restart(self, *, total: float | None = None, first: float = 0) -> None:
        """Restart the count and the time."""
        self.began = time.monotonic()
        self.total, self.first, self.done = total, first, first
        self.show()

    def open(self, *, announce: bool = True) -> None:
        """Begin to show the stage; without a terminal, print the label at once if ``announce``."""
        if self.console.quiet:
            return
        if isinstance(self.console, Reporter):
            self.console.stages.append(self)
        if not self.console.is_terminal:
            if announce:
                count = f": {self._count()}" if self.total else ""
                self.console.print(self.label + count, highlight=False, markup=False)
            return
        self._bar = Bar(
            TextColumn("{task.description}", markup=False), BarColumn(), _RateColumn(self), console=self.console,
            transient=not self.total,
        )  # fmt: skip
        self._task = self._bar.add_task(self.label, total=None)
        self.show()
        with contextlib.suppress(LiveError):  # rich before 14.1 shows only one bar: that of the outer stage
            self._bar.start()

    def close(self) -> None:
        """Stop showing the stage, also after an error; no effect if it is already closed."""
        if isinstance(self.console, Reporter) and self in self.console.stages:
            self.console.stages.remove(self)
        if self._bar is not None:
            self.show()
            self._bar.stop()
            self._bar = None

    def show(self) -> None:
        """Update the bar."""
        if self._bar is not None:
            share = self.share
            self._bar.update(self._task, total=None if share is None else 1.0, completed=share or 0.0)


class _RateColumn(ProgressColumn):
    """A column with a stage's text, updated with every redraw, so that the time left also falls in a long step."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def render(self, task: BarTask) -> Text:
        return Text(self._stage.text())


class Reporter(VisibleConsole):
    """A console that keeps the open stages and the time of its last output."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stages: list[Stage] = []
        self.printed = time.monotonic()

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and store the time."""
        self.printed = time.monotonic()
        super().print(*objects, **options)


@contextlib.contextmanager
def stage(
    console: Console | None, label: str, *, unit: str = "", total: float | None = None, announce: bool = True
) -> Iterator[Stage]:
    """Show a stage inside the block; call `Stage.update` with the progress. Without a console there is no output.

    Without a terminal, the label is printed at once; without ``announce``, the first line comes after some seconds, so
    that an immediate error is the only line. The other arguments are those of `Stage`.
    """
    shown = Stage(console or Console(quiet=True), label, unit=unit, total=total)
    shown.open(announce=announce)
    try:
        yield shown
    finally:
        shown.close()


def duration(seconds: float) -> str:
    """Return a time as text: 12 s, 3.4 min, 5.6 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def digits(rate: float) -> str:
    """Return a rate as text, with two decimals only below 10: 1,234, 12, 0.34."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
