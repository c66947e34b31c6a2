"""A sign of life while a command works, and an end at once when it is asked to stop.

A thread of the command line alone: a program that uses holdfast as a library has no such thread.
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

_EVERY = 3.0  # as holdfast.progress, which takes rich to import
_FIRST = 2.0  # seconds until a verb that still loads its libraries says so: Python took some to start, too
_LOOK = 0.25
_PATIENCE = 1.0
"""Seconds that a call into a library may go on after Ctrl-C, before the process ends without it."""


class Alive:
    """Speaks when nothing was printed for some seconds, and ends a process that cannot react to a signal.

    Python sees to a signal between two steps of the main thread. A step into a library (the words of a large file, a
    backward pass) may take minutes; the process is then ended from here, as by a kill: files are written under
    temporary names, and the run goes on from its last checkpoint.

    Args:
        verb: the command's name.
        quiet: print nothing.
        ended: called before the process ends.

    Attributes:
        reporter: where the verb's progress goes, once it has said so.
        stopping: the signals that ask the process to end and that `react` is called for.
    """

    def __init__(self, verb: str, *, quiet: bool, ended: Callable[[], None]) -> None:
        self.verb, self.quiet, self.ended = verb, quiet, ended
        self.reporter: Reporter | None = None
        self.stopping: tuple[int, ...] = ()
        self._reacted: float | None = None
        self._began = self._told = time.monotonic()
        self._process = os.getpid()
        self._wakes, self._wake = -1, -1

    def react(self) -> None:
        """Note that the main thread has seen a signal, and stops by itself."""
        self._reacted = time.monotonic()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the thread for as long as the context is open. Python lets the main thread alone see to signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._wakes, self._wake = os.pipe()
        for end in (self._wakes, self._wake):
            os.set_blocking(end, False)
        before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)  # a child's signals are not this process's
        thread = threading.Thread(target=self._run, name="holdfast-alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            if os.getpid() == self._process:  # the thread is not in a process that was forked off
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
        signalled: tuple[int, float, float] | None = None  # which, when it came at the earliest, when it was read here
        looked = time.monotonic()
        while True:
            before, looked = looked, time.monotonic()
            if select.select([self._wakes], [], [], _LOOK)[0]:
                numbers = os.read(self._wakes, 64)
                if b"\0" in numbers:
                    return
                if stopping := [number for number in numbers if number in self.stopping]:
                    signalled = (stopping[0], before, time.monotonic())
            if signalled is not None and time.monotonic() - signalled[2] >= _PATIENCE:
                # On a busy machine the main thread may have reacted long before this one came to read the signal.
                if self._reacted is None or self._reacted < signalled[1]:
                    self._end(signalled[0])
                signalled = None
            self._speak()

    def _end(self, number: int) -> None:
        if self.reporter is not None and self.reporter.is_terminal:
            self.reporter.show_cursor()
        self.ended()
        os._exit(128 + number)

    def _speak(self) -> None:
        """Print a line where nothing was printed for some seconds; a terminal with a bar shows it by itself."""
        reporter, now = self.reporter, time.monotonic()
        last = max(self._told, reporter.printed if reporter is not None else 0.0)
        every = _FIRST if reporter is None and self._told == self._began else _EVERY
        if self.quiet or self._reacted is not None or now - last < every:
            return
        stages = list(reporter.stages) if reporter is not None else []
        if reporter is not None and (reporter.quiet or (stages and reporter.is_terminal)):
            return
        self._told = now
        if stages:
            stages[-1].tell()
            return
        doing = "" if reporter is not None else "starting, "
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            print(f"{self.verb}: {doing}{now - self._began:.0f} s so far", file=sys.stderr, flush=True)
