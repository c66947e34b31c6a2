"""Journal of finished examples, from which an interrupted attack resumes.

A journal is a file of JSON lines beside the result: first the settings, then a row per finished example. Each process
of a run writes its own; a resumed run reads all of them, with any number of processes. A line holds the SHA-256 of the
run's settings, which identifies the run, and of its content: damaged lines are ignored, and a line of another run is an
error.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal_lines import add_row, digest_of, keep_lines, lines_of, refuse_other_run, row_of
from holdfast.errors import UserError

_SECONDS = "seconds"

Key = tuple[str, int]
"""Name of a recipe and number of an example."""


class Journal:
    """The journal of one process.

    Args:
        output: the result file it belongs to.
        settings: all settings that the attempts depend on; a journal with other settings is not continued.
        rank: the rank of this process.
        world: the number of processes.

    Attributes:
        spent: the seconds that this process has spent on each recipe, in runs before this one.
    """

    def __init__(self, output: Path, settings: dict[str, Any], *, rank: int = 0, world: int = 1) -> None:
        self._output, self._rank, self._world = output, rank, world
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))  # in the form that they have after reading
        self._run = digest_of(self._settings)
        self._path = journal_path(output, rank)
        self.spent: dict[str, float] = {}

    def open(self, *, resume: bool, notify: Callable[[str], None] | None = None) -> dict[Key, Attempt]:
        """Start or resume the journal; return the finished attempts of all processes.

        Args:
            resume: continue existing journals.
            notify: called with a message for each journal with damaged lines; their examples count as not finished.

        Raises:
            UserError: a journal exists and ``resume`` is false, or its settings differ.
        """
        # The other processes of this run may already have created their journals.
        current = {journal_path(self._output, rank) for rank in range(self._world) if rank != self._rank}
        existing = [path for path in journals(self._output) if path not in current]
        if existing and not resume:
            raise UserError(
                f"{existing[0]} is the journal of an attack that did not end: continue it with --resume, or delete it"
            )
        contents = self._contents() if resume else []
        for content in contents:
            if content.damaged and notify is not None:
                notify(content.describe())
        self.spent = next((content.spent for content in contents if content.path == self._path), {})
        self._keep_intact_lines()
        if not self._path.exists() or self._path.stat().st_size == 0:
            self._write({"settings": self._settings})
        return {key: attempt for content in contents for key, attempt in content.attempts.items()}

    def add(self, attempt: Attempt, seconds: float) -> None:
        """Append a finished example, with the seconds that this process has spent on its recipe so far."""
        self._write({**attempt.row(), _SECONDS: seconds})

    def end(self) -> None:
        """Append the line that marks the share of this process as finished."""
        self._write({"done": self._rank, "of": self._world})

    def finished(self, rank: int, share: Iterable[Key]) -> bool:
        """Return True if another process has finished its share, in a run with the same number of processes.

        The end line may be from the previous run, in a journal that was damaged since. So all examples of the share
        must be present, too.
        """
        path = journal_path(self._output, rank)
        last = lines_of(path)[-1:] if path.exists() else []
        ended = any((row_of(line, self._run) or {}) == {"done": rank, "of": self._world} for line in last)
        return ended and self.all().keys() >= set(share)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each recipe, up to its last example, in the slowest process."""
        longest: dict[str, float] = {}
        for content in self._contents():
            for recipe, seconds in content.spent.items():
                longest[recipe] = max(seconds, longest.get(recipe, 0.0))
        return longest

    def all(self) -> dict[Key, Attempt]:
        """Return the finished attempts of all processes."""
        return {key: attempt for content in self._contents() for key, attempt in content.attempts.items()}

    def remove(self) -> None:
        """Delete the journals of all processes, after the result was written."""
        for path in journals(self._output):
            path.unlink()

    def _contents(self) -> list[_Content]:
        """Read the journals of all processes."""
        return [_read(path, self._settings, self._run) for path in journals(self._output)]

    def _write(self, row: dict[str, Any]) -> None:
        add_row(self._path, row, self._run)

    def _keep_intact_lines(self) -> None:
        """Remove incomplete and damaged lines, and the end line, since the run continues."""
        if not self._path.exists():
            return
        intact = [line for line in lines_of(self._path) if "done" not in (row_of(line, self._run) or {"done": True})]
        keep_lines(self._path, intact)


def journals(output: Path) -> Iterator[Path]:
    """Yield the paths of the journals beside a result file."""
    yield from sorted(output.parent.glob(f".{glob.escape(output.name)}.journal-*"))


def journal_path(output: Path, rank: int) -> Path:
    """Return the path of the journal of a process."""
    return output.parent / f".{output.name}.journal-{rank:03d}"


@dataclass
class _Content:
    """The content of a journal; ``damaged`` holds the numbers of damaged lines, from 1."""

    path: Path
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list)

    def describe(self) -> str:
        """Return the message about the damaged lines."""
        count = sum(number > 1 for number in self.damaged)  # the first line holds the settings
        lines = f"{self.path}:{self.damaged[0]}"
        if len(self.damaged) > 1:
            lines += f" (and {len(self.damaged) - 1} more line{'s' * (len(self.damaged) > 2)})"
        return f"{lines} is damaged: {count} example{'s' * (count != 1)} will be attacked again"


def _read(path: Path, settings: dict[str, Any], run: str) -> _Content:
    """Read a journal.

    Raises:
        UserError: it belongs to a run with other settings.
    """
    content = _Content(path)
    for number, line in enumerate(lines_of(path), start=1):
        row = row_of(line, run)
        if row is None:
            refuse_other_run(path, number, line, settings)
            content.damaged.append(number)
        elif "done" not in row and "settings" not in row:
            seconds = float(row.pop(_SECONDS))
            attempt = Attempt.from_row(row)
            content.spent[attempt.recipe] = max(seconds, content.spent.get(attempt.recipe, 0.0))
            content.attempts[attempt.recipe, attempt.number] = attempt
    return content
