"""The times of a demo's stages."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.progress import stage

if TYPE_CHECKING:
    from rich.console import Console


class DemoClock:
    """Clock that announces each stage and records ``NAME_seconds``, and ``NAME_cpu_seconds`` of this process.

    Args:
        console: the console that shows progress.
    """

    def __init__(self, console: Console) -> None:
        self.seconds: dict[str, float] = {}
        self._console, self._began = console, time.monotonic()

    @contextlib.contextmanager
    def stage(self, name: str, message: str) -> Iterator[None]:
        """Announce a stage, and record the seconds of the block."""
        wall, cpu = time.monotonic(), time.process_time()
        with stage(self._console, message):
            yield
        self.seconds[f"{name}_seconds"] = time.monotonic() - wall
        self.seconds[f"{name}_cpu_seconds"] = time.process_time() - cpu

    def record(self) -> dict[str, float]:
        """Return the seconds of the demo so far and of its finished stages, for the result."""
        return {"demo_seconds": time.monotonic() - self._began, **self.seconds}
