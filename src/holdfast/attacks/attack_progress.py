"""Progress display of an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console

from holdfast.attacks.examples import Attempt
from holdfast.progress import Stage, digits, duration

_READ = 256
"""Words of a text beyond which a query takes no longer: models cut there, or somewhat earlier or later."""
_LEAST_SHARE = 0.005
"""Share of the work from which on the time left is estimated."""


def work_of(text: str) -> float:
    """Return about how much work the attack on a text is: queries for each word, each of which reads the text."""
    words = len(text.split())
    return float(max(1, words * min(words, _READ)))


@dataclass(frozen=True)
class UnderWay:
    """The number of texts under attack, and sums over them.

    ``parts`` sums their finished shares, 0 to 1 each, and ``work`` these shares of their `work_of`.
    """

    texts: int = 0
    tried: int = 0
    words: int = 0
    queries: int = 0
    parts: float = 0.0
    work: float = 0.0


class AttackProgress(Stage):
    """Display of finished examples, rates, success rate, words tried in the running attacks, and the time left.

    Queries are counted as in the result, plus those for texts that are not finished.

    Args:
        console: the console; None: no output.
        label: label of the display, usually the name of a recipe.
        total: number of examples to attack.
        under_way: returns the state of the running attacks.
        work: the sum of `work_of` over the examples; None: all examples count as equally long.
    """

    def __init__(
        self,
        console: Console | None,
        label: str,
        total: int,
        under_way: Callable[[], UnderWay] = UnderWay,
        *,
        work: float | None = None,
    ) -> None:
        super().__init__(console or Console(quiet=True), label, unit="examples", total=total)
        self._under_way, self._work, self._worked = under_way, work, 0.0
        self._attacked = self._succeeded = self._queries = 0

    def __enter__(self) -> AttackProgress:
        self.open(announce=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and not self.console.is_terminal and self.total and self.printed_count != self.done:
            self.print_line()

    def add(self, attempt: Attempt) -> None:
        """Count a finished example."""
        self._attacked += attempt.outcome != "skipped"
        self._succeeded += attempt.outcome == "succeeded"
        self._queries += attempt.queries
        self._worked += work_of(attempt.original)
        self.update(self.done + 1)

    def rate(self) -> str:
        """Return examples and queries per second, the success rate, and the words tried in the running attacks."""
        now, elapsed = self._under_way(), self.elapsed
        parts = [
            f"{self.done / elapsed:.2f} examples/s",
            f"{digits((self._queries + now.queries) / elapsed)} queries/s",
        ]
        if self._attacked:
            parts.append(f"{100 * self._succeeded / self._attacked:.1f} % success")
        if now.texts and now.words:
            texts = "1 text" if now.texts == 1 else f"{now.texts} texts"
            parts.append(f"{now.tried:,} of {now.words:,} words tried in {texts}")
        return "  ".join(parts)

    def remaining(self) -> tuple[float, float] | None:
        """Return the share that is done and the seconds left; at first too many, since a success ends an attack early.

        Running attacks count with their finished parts. None if nothing is done yet, or too little of texts of several
        lengths: the first ones to end are the short ones.
        """
        done, whole = self._done_of_whole()
        if not done or not whole or (self._work is not None and done < _LEAST_SHARE * whole):
            return None
        return min(done / whole, 1.0), self.elapsed / done * max(whole - done, 0.0)

    @property
    def share(self) -> float | None:
        """The share of the work that is done, from 0 to 1; None: unknown."""
        done, whole = self._done_of_whole()
        return min(done / whole, 1.0) if whole else None

    def _done_of_whole(self) -> tuple[float, float]:
        """Return the work that is done, also by running attacks, and the whole; without lengths, numbers of texts."""
        now = self._under_way()
        if self._work is None:
            return self.done + now.parts, float(self.total or 0)
        return self._worked + now.work, self._work

    def _left(self) -> str:
        unknown = self._work is not None and self.remaining() is None
        return f"{duration(self.elapsed)} so far" if unknown else super()._left()
