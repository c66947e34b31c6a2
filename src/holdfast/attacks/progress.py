"""What a person sees while an attack runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console

from holdfast.attacks.examples import Attempt
from holdfast.progress import Stage, digits, duration


@dataclass(frozen=True)
class UnderWay:
    """What runs now.

    Attributes:
        texts: attacked at this moment.
        tried: of their words, those whose exchanges were tried.
        words: of their words, those that may be exchanged.
        queries: answered about them.
        parts: how much of each text is done, from 0 to 1, added up.
    """

    texts: int = 0
    tried: int = 0
    words: int = 0
    queries: int = 0
    parts: float = 0.0


class AttackProgress(Stage):
    """The examples that are done, the rates, the success so far, the words tried in what runs, and the time left.

    Queries are counted as in the result, and those about texts that are not finished besides.

    Args:
        console: where to draw; None: nowhere.
        label: what runs, a recipe's name as a rule.
        total: examples to attack.
        under_way: called for what runs now.
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
        if error is None and not self.console.is_terminal and self.total and self.told != self.done:
            self.tell()

    def add(self, attempt: Attempt) -> None:
        """Count a finished example."""
        self._attacked += attempt.outcome != "skipped"
        self._succeeded += attempt.outcome == "succeeded"
        self._queries += attempt.queries
        self.update(self.done + 1)

    def count(self) -> str:
        """Return the examples that are done of all."""
        return f"{self.done:,}/{self.total:,} {self.unit}"

    def rate(self) -> str:
        """Return examples and queries a second, the success so far, and the words of what runs."""
        now = self._under_way()
        queries = (self._queries + now.queries) / self.elapsed
        told = [f"{self.done / self.elapsed:.2f} examples/s", f"{digits(queries)} queries/s"]
        if self._attacked:
            told.append(f"{100 * self._succeeded / self._attacked:.1f} % success")
        if now.texts and now.words:
            texts = "1 text" if now.texts == 1 else f"{now.texts} texts"
            told.append(f"{now.tried:,} of {now.words:,} words tried in {texts}")
        return "  ".join(told)

    def left(self) -> str:
        """Return the time left: an upper bound while the first words are tried, since a success ends a text."""
        done = self.done + self._under_way().parts
        if not done or not self.total:
            return f"{duration(self.elapsed)} so far"
        return f"ETA {duration(self.elapsed / done * max(self.total - done, 0.0))}"
