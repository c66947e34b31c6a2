"""Journal of an audit, from which it goes on after a stop: vectors, finished attacks, and what was planned by time.

A file of JSON lines beside the result: first the settings, then a row for each call of a function or each portion of
texts, and for each attacked text. Damaged lines are left out, and a journal of other settings is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal_lines import add_row, digest_of, keep_lines, lines_of, refuse_other_run, row_of
from holdfast.errors import UserError

Vector = npt.NDArray[np.float32]


class AuditJournal:
    """The journal of an audit; one without a result file keeps nothing.

    Args:
        output: the result file it belongs to; None: nothing is kept.
        settings: everything that the audit depends on.

    Attributes:
        spent: the seconds that the parts of the audit before this one took.
    """

    def __init__(self, output: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = None if output is None else output.parent / f".{output.name}.journal-audit"
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._run = digest_of(self._settings)
        self._vectors: dict[tuple[str, str], Vector] = {}
        self._attempts: dict[str, dict[int, Attempt]] = defaultdict(dict)
        self._plan: dict[str, Any] = {}
        self._began = time.monotonic()
        self.spent = 0.0

    def open(self, *, resume: bool) -> list[str]:
        """Start or continue the journal; return lines about it, for people.

        Raises:
            UserError: there is a journal and ``resume`` is False, or it has other settings, or there is no result file
                to resume.
        """
        if self._path is None:
            if resume:
                raise UserError("--resume goes on from what is kept beside the result: give --output FILE.json")
            return []
        lines = []
        if self._path.exists():
            if not resume:
                raise UserError(
                    f"{self._path} is the journal of an audit that did not end: continue it with --resume, or delete it"
                )
            lines = self._read()
        if not self._path.exists() or self._path.stat().st_size == 0:
            add_row(self._path, {"settings": self._settings}, self._run)
        return lines

    def remove(self) -> None:
        """Delete the journal, after the result was written."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    # --- vectors ----------------------------------------------------------------------------------------------------

    def known(self, texts: Sequence[str], limit: int | None) -> dict[int, Vector]:
        """Return the vectors of the texts that were answered with this limit of texts per call, by place."""
        if not self._vectors:
            return {}
        found = ((place, self._vectors.get((str(limit), _key(text)))) for place, text in enumerate(texts))
        return {place: vector for place, vector in found if vector is not None}

    def add(self, texts: Sequence[str], limit: int | None, vectors: Vector) -> None:
        """Keep the vectors of texts, (n, d)."""
        if self._path is None:
            return
        rows = np.ascontiguousarray(vectors, dtype="<f4")
        keys = [_key(text) for text in texts]
        self._vectors |= {(str(limit), key): row for key, row in zip(keys, rows, strict=True)}
        self._write(
            {
                "vectors": base64.b64encode(rows.tobytes()).decode(),
                "dimensions": rows.shape[1],
                "texts": keys,
                "limit": str(limit),
            }
        )

    # --- attacks and plans ------------------------------------------------------------------------------------------

    def attempts(self, item: str) -> dict[int, Attempt]:
        """Return the finished attempts of an item, by the number of the text."""
        return dict(self._attempts[item])

    def add_attempt(self, item: str, attempt: Attempt) -> None:
        """Keep a finished attempt of an item."""
        if self._path is not None:
            self._write({"item": item, "attempt": attempt.row()})

    def planned(self, name: str, decide: Callable[[], Any]) -> Any:
        """Return what was decided before the stop, such as a number of texts that fits into the time; else decide."""
        if name not in self._plan:
            self._plan[name] = decide()
            if self._path is not None:
                self._write({"plan": name, "value": self._plan[name]})
        return self._plan[name]

    # --- lines ------------------------------------------------------------------------------------------------------

    def _write(self, row: dict[str, Any]) -> None:
        assert self._path is not None
        add_row(self._path, {**row, "seconds": self.spent + time.monotonic() - self._began}, self._run)

    def _read(self) -> list[str]:
        assert self._path is not None
        content, damaged = lines_of(self._path), []
        intact = []
        for number, line in enumerate(content, start=1):
            row = row_of(line, self._run)
            if row is None:
                refuse_other_run(self._path, number, line, self._settings, "audit")
                damaged.append(number)
            else:
                intact.append(line)
                self._take(row)
        keep_lines(self._path, intact)  # also without the rest of a line that was being written
        finished = sum(map(len, self._attempts.values()))
        lines = [f"going on after {self.spent:.0f} s: {len(self._vectors):,} vectors and {finished:,} attacks are kept"]
        if damaged:
            lines.append(f"{self._path}:{damaged[0]} is damaged: {len(damaged)} of its lines are left out")
        return lines

    def _take(self, row: dict[str, Any]) -> None:
        self.spent = max(self.spent, float(row.get("seconds", 0.0)))
        if "vectors" in row:
            rows = np.frombuffer(base64.b64decode(row["vectors"]), dtype="<f4").reshape(-1, row["dimensions"])
            self._vectors |= {(row["limit"], key): vector for key, vector in zip(row["texts"], rows, strict=True)}
        elif "attempt" in row:
            attempt = Attempt.from_row(row["attempt"])
            self._attempts[row["item"]][attempt.number] = attempt
        elif "plan" in row:
            self._plan[row["plan"]] = row["value"]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
