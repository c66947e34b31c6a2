"""Progress lines during long silent work, and a prompt exit after a termination signal.

This uses a thread, which only the command line starts, not a program that uses holdfast as a library.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.progress import Reporter

_EVERY = 3.0  # as in holdfast.progress, which would import rich
_FIRST = 2.0  # seconds until the first line, while libraries are loaded; Python itself takes time to start
_LOOK = 0.25
_PATIENCE = 1.0
"""Seconds that a library call may continue after Ctrl-C before the process is ended."""


class Alive:
    """Thread that prints a line after some seconds without output, and ends a process that cannot react to a signal.

    Python handles a signal between two bytecode steps of the main thread. A library call (reading a large file, a
    backward pass) may take minutes; then this thread kills the process. That is safe: files are written under temporary
    names, and the run resumes from its last checkpoint.

    Args:
        verb: name of the command.
        quiet: print nothing.
        ended: called before the process ends.

    Attributes:
        reporter: the progress console of the command, once it is set.
        stopping: the termination signals for which `react` is called.
    """

    def __init__(self, verb: str, *, quiet: bool, ended: Callable[[], None]) -> None:
        self.verb, self.quiet, self.ended = verb, quiet, ended
        self.reporter: Reporter | None = None
        self.stopping: tuple[int, ...] = ()
        self._reacted: float | None = None
        self._deferred = False
        self._began = self._last_line = time.monotonic()
        self._process = os.getpid()
        self._wakes, self._wake = -1, -1

    def react(self) -> None:
        """Record that the main thread has received a signal and stops by itself."""
        self._reacted = time.monotonic()

    def defer(self, deferred: bool) -> None:
        """Let the next signal wait for the end of a step, however long that takes; False: no longer."""
        self._deferred = deferred

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the thread while the context is open, if called in the main thread, which handles signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._wakes, self._wake = os.pipe()
        for end in (self._wakes, self._wake):
            os.set_blocking(end, False)
        before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)  # a child process handles its own signals
        thread = threading.Thread(target=self._run, name="holdfast-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            if os.getpid() == self._process:  # a forked process does not have the thread
                signal.set_wakeup_fd(before)
                os.write(self._wake, b"\0")
                thread.join()
            os.close(self._wakes)
            os.close(self._wake)
            self._wake = -1

    def _forget(self) -> None:
        if self._wake >= 0:
            signal.set_wakeup_fd(-1)

    def _run(self) -> None:
        signalled: tuple[int, float, float] | None = None  # number, earliest time of arrival, time of reading
        looked_at = time.monotonic()
        while True:
            before, looked_at = looked_at, time.monotonic()
            if select.select([self._wakes], [], [], _LOOK)[0]:
                numbers = os.read(self._wakes, 64)
                if b"\0" in numbers:
                    return
                stopping = [number for number in numbers if number in self.stopping]
                if self._deferred and stopping:
                    self._deferred = False
                    stopping = stopping[1:]
                if stopping:
                    signalled = (stopping[0], before, time.monotonic())
            if signalled is not None and time.monotonic() - signalled[2] >= _PATIENCE:
                # On a busy machine the main thread may have reacted before this thread read the signal.
                if self._reacted is None or self._reacted < signalled[1]:
                    self._end(signalled[0])
                signalled = None
            self._print_progress()

    def _end(self, number: int) -> None:
        if self.reporter is not None and self.reporter.is_terminal:
            self.reporter.show_cursor()
        self.ended()
        os._exit(128 + number)

    def _print_progress(self) -> None:
        """Print a line if nothing was printed for some seconds and no progress bar is shown."""
        reporter, now = self.reporter, time.monotonic()
        last = max(self._last_line, reporter.printed if reporter is not None else 0.0)
        every = _FIRST if reporter is None and self._last_line == self._began else _EVERY
        if self.quiet or self._reacted is not None or now - last < every:
            return
        stages = list(reporter.stages) if reporter is not None else []
        if reporter is not None and (reporter.quiet or (stages and reporter.is_terminal)):
            return
        self._last_line = now
        if stages:
            stages[-1].print_line()
            return
        prefix = "" if reporter is not None else "starting, "
        with contextlib.suppress(OSError, ValueError):  # the stream is closed
            print(f"{self.verb}: {prefix}{now - self._began:.0f} s so far", file=sys.stderr, flush=True)
