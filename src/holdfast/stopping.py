"""Stops by signal: at once, or at the end of the current step of a work that can be continued from there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Raised for a termination signal other than Ctrl-C; the cleanup is the same."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class StopAtOnce:
    """Handler of the command line for termination signals, which raises `Stopped`, or KeyboardInterrupt for Ctrl-C.

    Args:
        react: called before it raises.
        defer: called with True while a work lets the first signal wait (`DeferredStop`), and with False afterwards.
    """

    def __init__(self, react: Callable[[], None], defer: Callable[[bool], None]) -> None:
        self.defer = defer
        self._react, self._process = react, os.getpid()

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        if os.getpid() == self._process:
            self._react()
        elif number != signal.SIGINT:  # a process forked by a library ends without cleanup
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise Stopped(number)


class StopOfWorker:
    """Handler of a termination signal in a process of a pool: it ends the process, as without a handler.

    A pool sends the signal once more to all its processes when the first of them has ended. For a `DeferredStop`, this
    is no second signal: the others finish their step.
    """

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class DeferredStop:
    """A stop that waits for the end of a step; a second signal stops at once, unless a `StopOfWorker` handles it.

    Signals with a handler of somebody else, and ignored ones, are left alone.

    Args:
        notify: called when the first signal arrives.

    Attributes:
        requested: the number of the first signal; None: there was none.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self.requested: int | None = None
        self._notify = notify
        self._before: dict[int, Any] = {}
        self._process = os.getpid()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the first signal wait inside the block, if called in the main thread, which handles signals."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
                if handler == usual or isinstance(handler, (StopAtOnce, StopOfWorker)):
                    self._before[number] = signal.signal(number, self._receive)
        self._tell(True)
        try:
            yield
        finally:
            self._restore()

    def end(self) -> None:
        """Stop as the first signal would have done without this object."""
        assert self.requested is not None
        number = self.requested
        handler = self._before[number]
        self._restore()
        if callable(handler):
            handler(number, None)
        else:
            os.kill(os.getpid(), number)

    def _receive(self, number: int, _: FrameType | None) -> None:
        own = os.getpid() == self._process
        first = self.requested is None and own
        self.requested = number
        if first:
            self._notify()
        elif not (own and isinstance(self._before[number], StopOfWorker)):
            self.end()

    def _restore(self) -> None:
        self._tell(False)
        while self._before:
            signal.signal(*self._before.popitem())

    def _tell(self, deferred: bool) -> None:
        for handler in self._before.values():
            if isinstance(handler, StopAtOnce):
                handler.defer(deferred)
