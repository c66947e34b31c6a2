"""Journal of a poisoning: the passages under construction, from which an interrupted run resumes.

The file is that of other attacks (`holdfast.attacks.journal`), with rows of passages in place of examples. Every step
depends on the passage and on the seed alone, so that a resumed run ends with the same passages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.attacks.journal import Key, journal_path, journals
from holdfast.attacks.journal_lines import add_row, digest_of, keep_lines, lines_of, refuse_other_run, row_of
from holdfast.attacks.poisoning.poison_recipe import Passage
from holdfast.errors import UserError


class PoisonJournal:
    """The journal beside a result file; without one, nothing is kept.

    Args:
        output: the result file, or None.
        settings: all settings that the passages depend on; a journal with other settings is not continued.
    """

    def __init__(self, output: Path | None, settings: dict[str, Any]) -> None:
        self._path = None if output is None else journal_path(output, 0)
        self._output = output
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))  # in the form that they have after reading
        self._run = digest_of(self._settings)
        self.passages: dict[Key, Passage] = {}
        self.seconds: dict[str, float] = {}

    def open(self, *, resume: bool, notify: Callable[[str], None]) -> None:
        """Start or resume the journal; read the passages that it has.

        Raises:
            UserError: a journal exists and ``resume`` is false, or it is of another run.
        """
        if self._path is None or self._output is None:
            return
        existing = next(journals(self._output), None)
        if existing is not None and not resume:
            raise UserError(
                f"{existing} is the journal of an attack that did not end: continue it with --resume, or delete it"
            )
        intact = []
        for number, line in enumerate(lines_of(self._path) if self._path.exists() else [], start=1):
            row = row_of(line, self._run)
            if row is None:
                refuse_other_run(self._path, number, line, self._settings)
                notify(f"{self._path}:{number} is damaged: its steps will be made again")
                continue
            intact.append(line)
            if "passage" in row:
                self.passages[row["recipe"], row["number"]] = Passage.from_row(row["passage"])
                self.seconds[row["recipe"]] = float(row["seconds"])
        keep_lines(self._path, intact)
        if not intact:
            add_row(self._path, {"settings": self._settings}, self._run)

    def add(self, recipe: str, number: int, passage: Passage, seconds: float) -> None:
        """Append the state of a passage, with the seconds spent on its recipe so far."""
        self.passages[recipe, number] = passage
        self.seconds[recipe] = seconds
        if self._path is not None:
            row = {"recipe": recipe, "number": number, "passage": passage.row(), "seconds": seconds}
            add_row(self._path, row, self._run)

    def remove(self) -> None:
        """Delete the journal, after the result was written."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
