"""Progress of long work: a bar on a terminal, elsewhere a line when a stage starts and every few seconds after that.

A stage is a part of the work with a name, such as reading a corpus. Whoever works in it calls `Stage.update` now and
then. A call that takes minutes does not: the command line therefore has a `Reporter` for its console, whose stages
`holdfast.cli.alive` repeats while nothing else is printed.
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
"""A line comes at least every five seconds; the other two are for a machine that is busy."""


class Stage:
    """A part of the work: its name, how far it is, and what is said of it.

    Args:
        console: where it is shown.
        label: the name ("reading corpus.txt").
        unit: what is counted ("sentences").
        total: how many of them there are; None: unknown, or nothing is counted.
        first: how many were done before, in a run that is continued.
    """

    def __init__(
        self, console: Console, label: str, *, unit: str = "", total: float | None = None, first: float = 0
    ) -> None:
        self.console, self.label, self.unit = console, label, unit
        self.total, self.first, self.done = total, first, first
        self.note = ""
        self.told: float | None = None  # what was done when the last line was printed
        self.began = self._told = time.monotonic()
        self._bar: Bar | None = None
        self._task = TaskID(0)

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return max(time.monotonic() - self.began, 1e-9)

    @property
    def share(self) -> float | None:
        """How much of it is done, from 0 to 1; None: unknown."""
        return min(self.done / self.total, 1.0) if self.total else None

    def update(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far it is; without a terminal a line is printed where the last one is some seconds old.

        Args:
            done: how many of the unit.
            total: of how many; None: as before.
            note: what else is said, such as the loss; None: as before.
        """
        self.done = done
        self.total = self.total if total is None else total
        self.note = self.note if note is None else note
        self.show()
        if not self.console.is_terminal and time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self.tell()

    def tell(self) -> None:
        """Print a line on how far it is."""
        self._told, self.told = time.monotonic(), self.done
        self.console.print(f"{self.label}: {self.text()}", highlight=False, markup=False)

    def text(self) -> str:
        """Return how far it is, in words: what is done of how many, the rate, the note and the time left."""
        parts = (self.count(), self.rate(), self.note, self.left())
        return "  ".join(part for part in parts if part) or f"{duration(self.elapsed)} so far"

    def count(self) -> str:
        """Return what is done of how many."""
        if not self.total and not self.done:
            return ""
        return f"{self.done:,}{f'/{self.total:,}' if self.total else ''} {self.unit}".rstrip()

    def rate(self) -> str:
        """Return how many of the unit a second brings."""
        made = self.done - self.first
        return f"{digits(made / self.elapsed)} {self.unit}/s" if made > 0 and self.unit else ""

    def left(self) -> str:
        """Return the time left if it goes on as it did; before that can be told, the time that it took so far."""
        made = self.done - self.first
        if not self.total and not self.done:
            return ""
        if not self.total or made <= 0 or self.done >= self.total:
            return f"{duration(self.elapsed)} so far"
        return f"ETA {duration(self.elapsed / made * max(self.total - self.done, 0.0))}"

    def go_on(self, label: str) -> None:
        """Go on to what comes next and has a name of its own, but no count."""
        self.label, self.note = label, ""
        self.restart()
        if self._bar is not None:
            self._bar.update(self._task, description=label)
        else:
            self.console.print(label, highlight=False, markup=False)

    def restart(self, *, total: float | None = None, first: float = 0) -> None:
        """Count anew, from now on."""
        self.began = time.monotonic()
        self.total, self.first, self.done = total, first, first
        self.show()

    def open(self, *, announce: bool = True) -> None:
        """Begin to show it.

        Args:
            announce: print its label at once where there is no terminal.
        """
        if self.console.quiet:
            return
        if isinstance(self.console, Reporter):
            self.console.stages.append(self)
        if not self.console.is_terminal:
            if announce:
                count = f": {self.count()}" if self.total else ""
                self.console.print(self.label + count, highlight=False, markup=False)
            return
        self._bar = Bar(
            TextColumn("{task.description}", markup=False), BarColumn(), _Told(self), console=self.console,
            transient=not self.total,
        )  # fmt: skip
        self._task = self._bar.add_task(self.label, total=None)
        self.show()
        with contextlib.suppress(LiveError):  # rich before 14.1 shows one bar at a time: that of the outer stage
            self._bar.start()

    def close(self) -> None:
        """Stop showing it, also after an error; nothing happens where it is closed already."""
        if isinstance(self.console, Reporter) and self in self.console.stages:
            self.console.stages.remove(self)
        if self._bar is not None:
            self.show()
            self._bar.stop()
            self._bar = None

    def show(self) -> None:
        """Bring the bar up to date."""
        if self._bar is not None:
            share = self.share
            self._bar.update(self._task, total=None if share is None else 1.0, completed=share or 0.0)


class _Told(ProgressColumn):
    """What a stage says of itself, anew whenever the bar is drawn: the time left falls during a long step, too."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def render(self, task: BarTask) -> Text:
        return Text(self._stage.text())


class Reporter(VisibleConsole):
    """A console that knows which stages are under way and when it last printed.

    Args:
        **options: as of `holdfast.visible_console.VisibleConsole`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stages: list[Stage] = []
        self.printed = time.monotonic()

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, and remember when."""
        self.printed = time.monotonic()
        super().print(*objects, **options)


@contextlib.contextmanager
def stage(
    console: Console | None, label: str, *, unit: str = "", total: float | None = None, announce: bool = True
) -> Iterator[Stage]:
    """Show a stage for as long as the context is open; `Stage.update` takes what is done.

    Args:
        console: where; None: nowhere.
        label: its name.
        unit: what is counted.
        total: how many of them there are, where that is known.
        announce: print the label at once where there is no terminal; else the first line comes after some seconds, so
            that a mistake which is found at once is told in one line.
    """
    shown = Stage(console or Console(quiet=True), label, unit=unit, total=total)
    shown.open(announce=announce)
    try:
        yield shown
    finally:
        shown.close()


def duration(seconds: float) -> str:
    """Return a time as a person reads it: 12 s, 3.4 min, 5.6 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def digits(rate: float) -> str:
    """Return a rate with as many digits as it has a use for: 1,234, 12, 0.34."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
