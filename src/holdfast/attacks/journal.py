"""Finished examples on disk, so that an attack that was killed goes on where it stopped.

A journal is a file of JSON lines beside the result: first what the run is, then a row per finished example. Each
process of a run writes one of its own; whichever number of processes goes on reads all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.attacks.examples import Attempt
from holdfast.errors import UserError
from holdfast.files import cannot_write

Key = tuple[str, int]
"""A recipe's name and an example's number."""


class Journal:
    """The journal of one process.

    Args:
        output: the result file it belongs to.
        settings: everything that decides the attempts; a journal of another run is not continued.
        rank: the number of this process.
        world: how many processes there are.
    """

    def __init__(self, output: Path, settings: dict[str, Any], *, rank: int = 0, world: int = 1) -> None:
        self._output, self._settings, self._rank, self._world = output, settings, rank, world
        self._path = _path(output, rank)

    def open(self, *, resume: bool) -> dict[Key, Attempt]:
        """Begin, or go on: what all processes have finished so far.

        Raises:
            UserError: there is a journal and ``resume`` is false, or it is of other settings, or damaged.
        """
        # The journals of the processes beside this one may have been begun a moment ago.
        beside = {_path(self._output, rank) for rank in range(self._world) if rank != self._rank}
        left = [path for path in journals(self._output) if path not in beside]
        if left and not resume:
            raise UserError(
                f"{left[0]} is what is left of an attack that did not end: continue it with --resume, or delete it"
            )
        done = self.all() if resume else {}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _drop_torn_line(self._path)
        except OSError as error:
            raise cannot_write(self._path, error) from error
        if not self._path.exists() or self._path.stat().st_size == 0:
            self._write({"settings": self._settings})
        return done

    def add(self, attempt: Attempt) -> None:
        """Write down a finished example."""
        self._write(attempt.row())

    def end(self) -> None:
        """Write that this process has finished its share."""
        self._write({"done": self._rank})

    def finished(self, rank: int) -> bool:
        """Whether another process has finished its share."""
        path = _path(self._output, rank)
        return path.exists() and any("done" in row for row in _rows(path))

    def all(self) -> dict[Key, Attempt]:
        """What all processes have finished."""
        done: dict[Key, Attempt] = {}
        for path in journals(self._output):
            done.update(_read(path, self._settings))
        return done

    def remove(self) -> None:
        """Remove the journals of all processes: the result is written."""
        for path in journals(self._output):
            path.unlink()

    def _write(self, row: dict[str, Any]) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:  # closed at once: what is in it outlives the process
                file.write(json.dumps(row, ensure_ascii=True) + "\n")
        except OSError as error:
            raise cannot_write(self._path, error) from error


def journals(output: Path) -> Iterator[Path]:
    """The journals that lie beside a result file."""
    yield from sorted(output.parent.glob(f".{output.name}.journal-*"))


def _path(output: Path, rank: int) -> Path:
    return output.parent / f".{output.name}.journal-{rank:03d}"


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a journal; a line that was being written when the process died is left out."""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}:{number}: damaged: delete the file and begin anew") from error


def _read(path: Path, settings: dict[str, Any]) -> dict[Key, Attempt]:
    rows = iter(_rows(path))
    head = next(rows, None)
    if head is None:
        return {}
    if head.get("settings") != settings:
        old = head.get("settings") or {}
        names = [name for name in {**old, **settings} if old.get(name) != settings.get(name)]
        raise UserError(f"{path} is of an attack with another {' and '.join(names)}: delete it, or give the same again")
    attempts = [Attempt.from_row(row) for row in rows if "done" not in row]
    return {(attempt.recipe, attempt.number): attempt for attempt in attempts}


def _drop_torn_line(path: Path) -> None:
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    # "done" belongs to the end of a share; a run that goes on is not at its end.
    kept = b"".join(line for line in whole.splitlines(keepends=True) if not line.startswith(b'{"done"'))
    if kept != data:
        path.write_bytes(kept)
