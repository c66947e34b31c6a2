"""What a person sees while an audit runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console

from holdfast.encoding import Progress as Report
from holdfast.progress import Stage, stage


class AuditProgress:
    """The item under way; the rate and the time left of long encodings; the verdict of each item.

    Args:
        console: where to print; None: nowhere.
        total: items of the audit.
    """

    def __init__(self, console: Console | None, total: int) -> None:
        self.console = console or Console(quiet=True)
        self._total, self._number = total, 0
        self._item = Stage(self.console, "")

    @property
    def label(self) -> str:
        """The item under way."""
        return self._item.label

    def begin(self, name: str) -> None:
        """Go on to the next item."""
        self._number += 1
        self._item = Stage(self.console, f"{self._number}/{self._total} {name}")
        self._item.open(announce=False)

    def end(self, verdict: str) -> None:
        """Say what the item came to."""
        self.close()
        self.console.print(f"{self.label}: {verdict}  {self._item.elapsed:.1f} s", highlight=False, markup=False)

    def close(self) -> None:
        """Stop showing the item, also after an error."""
        self._item.close()

    @contextlib.contextmanager
    def encoding(self) -> Iterator[Report]:
        """Show a long encoding: a bar with texts/s and ETA on a terminal, now and then a line elsewhere."""
        with stage(self.console, self.label, unit="texts", announce=False) as shown:
            yield shown.update
