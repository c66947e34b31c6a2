"""The time budget of an audit: how many texts fit into it, and a stop for what takes longer than planned."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder


class TimeIsUp(Exception):
    """The model was called after the end of the time that it had."""


@dataclass
class TimeBudget:
    """The time budget of an audit.

    Attributes:
        seconds: the whole budget; 0: no limit.
        began: the time of the beginning, by `time.monotonic`.
        left_out: sentences about what did not fit, in the order in which it was left out.
    """

    seconds: float
    began: float = field(default_factory=time.monotonic)
    left_out: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Seconds left, not below 0; infinite without a limit."""
        return max(0.0, self.began + self.seconds - time.monotonic()) if self.seconds else float("inf")

    def deadline(self, share: float = 1.0) -> float:
        """Return the time, by `time.monotonic`, at which this share of the rest of the budget has passed."""
        return time.monotonic() + share * self.left

    def fitting(self, wanted: int, seconds_each: float, share: float, least: int) -> int:
        """Return how many of ``wanted`` texts fit into a share of the rest; not below ``least``, if so many are wanted.

        Args:
            wanted: the number of texts without a limit.
            seconds_each: the time that each takes.
            share: the share of the rest of the budget that they may take.
            least: the smallest number that is of use.
        """
        if seconds_each <= 0.0 or seconds_each * wanted <= share * self.left:
            return wanted
        return min(wanted, max(least, int(share * self.left / seconds_each)))


@contextlib.contextmanager
def stopped_at(model: SentenceEncoder, deadline: float) -> Iterator[None]:
    """Raise `TimeIsUp` inside the block as soon as the model is called after the deadline, by `time.monotonic`."""

    def check() -> None:
        if time.monotonic() > deadline:
            raise TimeIsUp

    if isinstance(model, VectorFunction):
        model.before_call = check
        try:
            yield
        finally:
            model.before_call = None
        return
    handle = model.register_forward_pre_hook(lambda *_: check())
    try:
        yield
    finally:
        handle.remove()
