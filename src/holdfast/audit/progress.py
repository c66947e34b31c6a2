"""What a person sees while an audit runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.encoding import Progress as Report

_EVERY = 15.0


class AuditProgress:
    """Which item is under way; the rate and ETA of long encodings; what each item came to.

    Args:
        console: where to print; None: nowhere.
        total: items of the audit.
    """

    def __init__(self, console: Console | None, total: int) -> None:
        self.console = console or Console(quiet=True)
        self._total, self._number, self._name = total, 0, ""
        self._began = 0.0

    @property
    def label(self) -> str:
        """The item under way."""
        return f"{self._number}/{self._total} {self._name}"

    def begin(self, name: str) -> None:
        """The next item."""
        self._number, self._name = self._number + 1, name
        self._began = time.monotonic()

    def end(self, verdict: str) -> None:
        """The item is done."""
        seconds = time.monotonic() - self._began
        self.console.print(f"{self.label}: {verdict}  {seconds:.1f} s", highlight=False, markup=False)

    @contextlib.contextmanager
    def encoding(self) -> Iterator[Report]:
        """A bar with sentences/s and ETA on a terminal, now and then a line elsewhere."""
        live = self.console.is_terminal and not self.console.quiet
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:.0f} texts/s  ETA"),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=self.console, disable=not live, transient=True)
        task = bar.add_task(self.label, total=None, rate=0.0)
        began = told = time.monotonic()

        def report(done: int, total: int) -> None:
            nonlocal told
            now = time.monotonic()
            rate = done / max(now - began, 1e-9)
            bar.update(task, completed=done, total=total, rate=rate)
            if not live and now - told > _EVERY:
                told = now
                left = (total - done) / rate
                self.console.print(
                    f"{self.label}: {done}/{total} texts  {rate:.0f} texts/s  ETA {left:.0f} s", highlight=False
                )

        with bar:
            yield report
