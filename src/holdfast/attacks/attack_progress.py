"""Progress display of an attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console

from holdfast.attacks.examples import Attempt
from holdfast.progress import Stage, digits


@dataclass(frozen=True)
class UnderWay:
    """The number of texts under attack, and sums over them; ``parts`` sums their finished shares, 0 to 1 each."""

    texts: int = 0
    tried: int = 0
    words: int = 0
    queries: int = 0
    parts: float = 0.0


class AttackProgress(Stage):
    """Display of finished examples, rates, success rate, words tried in the running attacks, and the time left.

    Queries are counted as in the result, plus those for texts that are not finished.

    Args:
        console: the console; None: no output.
        label: label of the display, usually the name of a recipe.
        total: number of examples to attack.
        under_way: returns the state of the running attacks.
    """

    def __init__(
        self, console: Console | None, label: str, total: int, under_way: Callable[[], UnderWay] = UnderWay
    ) -> None:
        super().__init__(console or Console(quiet=True), label, unit="examples", total=total)
        self._under_way = under_way
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

        Running attacks count with their finished parts. None if nothing is done yet.
        """
        done = self.done + self._under_way().parts
        if not done or not self.total:
            return None
        return min(done / self.total, 1.0), self.elapsed / done * max(self.total - done, 0.0)
