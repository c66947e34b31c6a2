"""Progress display of an audit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console

from holdfast.encoding import Progress
from holdfast.progress import Stage, stage


class AuditProgress:
    """Display of the current step, the rate and time left of long encodings, and the verdicts of each step."""

    def __init__(self, console: Console | None, total: int) -> None:
        self.console = console or Console(quiet=True)
        self._total, self._number = total, 0
        self._item = Stage(self.console, "")

    @property
    def label(self) -> str:
        """The label of the current step."""
        return self._item.label

    def begin(self, name: str) -> None:
        """Start the next step."""
        self._number += 1
        self._item = Stage(self.console, f"{self._number}/{self._total} {name}")
        self._item.open(announce=False)

    def end(self, verdict: str) -> None:
        """Print the verdict of the step, or what it did."""
        self.close()
        self.console.print(f"{self.label}: {verdict}  {self._item.elapsed:.1f} s", highlight=False, markup=False)

    def close(self) -> None:
        """Stop the display of the step; also called after an error."""
        self._item.close()

    @contextlib.contextmanager
    def encoding(self) -> Iterator[Progress]:
        """Show a long encoding: a bar with texts/s and ETA on a terminal, otherwise a line from time to time."""
        with stage(self.console, self.label, unit="texts", announce=False) as shown:
            yield shown.update
