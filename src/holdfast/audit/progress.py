"""What a person sees while an audit runs."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

from rich.console import Console

from holdfast.attacks.progress import encoding_bar
from holdfast.encoding import Progress as Report


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

    def encoding(self) -> AbstractContextManager[Report]:
        """A bar with texts/s and ETA on a terminal, now and then a line elsewhere."""
        return encoding_bar(self.console, self.label)
