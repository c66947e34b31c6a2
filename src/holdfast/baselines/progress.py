"""What a person sees while a baseline is made."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0

Update = Callable[[int, int, str], None]


@contextlib.contextmanager
def progress_bar(console: Console, what: str, unit: str) -> Iterator[Update]:
    """A bar with rate and ETA on a terminal, now and then a line elsewhere.

    Args:
        console: where to draw.
        what: what is done ("encoding").
        unit: what is counted ("sentences").

    Yields:
        A function to call with (done, total, a note such as the loss).
    """
    bar = Progress(
        TextColumn(what, markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.0f} " + unit + "/s  {task.fields[note]}  ETA", markup=False),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal or console.quiet,
    )
    task = bar.add_task(what, total=None, rate=0.0, note="")
    began = told = time.monotonic()

    def update(done: int, total: int, note: str = "") -> None:
        nonlocal told
        now = time.monotonic()
        rate = done / max(now - began, 1e-9)
        bar.update(task, completed=done, total=total, rate=rate, note=note)
        if not console.is_terminal and now - told > _SECONDS_BETWEEN_LINES:
            told = now
            left = (total - done) / max(rate, 1e-9)
            console.print(f"{what} {done}/{total}  {rate:.0f} {unit}/s  {note}  ETA {left:.0f} s", highlight=False)

    with bar:
        yield update
