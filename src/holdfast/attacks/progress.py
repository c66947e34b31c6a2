"""What a person sees while an attack runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.attacks.examples import Attempt
from holdfast.encoding import Progress as Report

_EVERY = 15.0


@contextlib.contextmanager
def encoding_bar(console: Console | None, label: str) -> Iterator[Report]:
    """A bar with texts/s and ETA on a terminal, now and then a line elsewhere.

    Args:
        console: where to draw; None: nowhere.
        label: what is encoded.
    """
    console = console or Console(quiet=True)
    live = console.is_terminal and not console.quiet
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f} texts/s  ETA", markup=False),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, disable=not live, transient=True)
    task = bar.add_task(label, total=None, rate=0.0)
    began = told = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        rate = done / max(now - began, 1e-9)
        bar.update(task, completed=done, total=total, rate=rate)
        if not live and now - told > _EVERY:
            told = now
            left = (total - done) / rate
            console.print(f"{label}: {done}/{total} texts  {rate:.0f} texts/s  ETA {left:.0f} s", highlight=False)

    with bar:
        yield report


class AttackProgress:
    """A bar with examples/s, queries/s, success so far and ETA on a terminal; now and then a line elsewhere.

    Queries are counted as in the result, when their example is finished.

    Args:
        console: where to draw; None: nowhere.
        recipe: the recipe's name.
        total: examples to attack.
    """

    def __init__(self, console: Console | None, recipe: str, total: int) -> None:
        self._console = console or Console(quiet=True)
        self._recipe, self._total = recipe, total
        self._bar = Progress(
            TextColumn(recipe, markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}  ETA", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal or self._console.quiet,
        )
        self._task = self._bar.add_task(recipe, total=total, note="")
        self._done = self._attacked = self._succeeded = self._queries = 0

    def __enter__(self) -> AttackProgress:
        self._began = self._told = time.monotonic()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if error is None and not self._console.is_terminal and self._total:
            self._print()

    def add(self, attempt: Attempt) -> None:
        """Count a finished example."""
        self._done += 1
        self._attacked += attempt.outcome != "skipped"
        self._succeeded += attempt.outcome == "succeeded"
        self._queries += attempt.queries
        self._bar.update(self._task, completed=self._done, note=self._note())
        if not self._console.is_terminal and time.monotonic() - self._told > _EVERY:
            self._print()

    def _note(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        rate = f"{self._done / seconds:.2f} examples/s  {self._queries / seconds:.0f} queries/s"
        success = f"  {100 * self._succeeded / self._attacked:.1f} % success" if self._attacked else ""
        return rate + success

    def _print(self) -> None:
        self._told = time.monotonic()
        left = (self._told - self._began) / max(self._done, 1) * (self._total - self._done)
        self._console.print(
            f"{self._recipe}: {self._done}/{self._total}  {self._note()}  ETA {left:.0f} s", highlight=False
        )
