"""Pieces of work that are named by everything that made them: each is done once, kept, and shared between tables."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import EndsRun, UserError
from holdfast.files import locked, made_for, read_object, write_json
from holdfast.finding import altered_files
from holdfast.results import content_sha256, read_with_state
from holdfast.training.log import RESULT_FILE
from holdfast.training.record import RUN, damage_in, digest_in, refuse_foreign, shown

CELL_FILE = "cell.json"
"""Written last of all into a cell's folder: where it is, the cell is finished."""

REVISIONS: Mapping[str, int] = {
    "translation": 1,
    "encoder": 1,
    "baseline": 1,
    "classifier": 1,
    "attack": 1,
    "evaluation": 1,
    "inspection": 1,
    "transfer": 1,
    "distances": 1,
}
"""For each kind the number of its code. Raise it where a change alters what a cell holds that says the same: those that
are there, and all that take them, are then made anew, and not mixed with new ones."""

_KEY_DIGITS = 12
_MODELS = ("encoder", "baseline", "classifier")
"""The kinds whose product is a model's folder."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One piece of work: a training, a classifier, an attack, an evaluation.

    Args:
        kind: "model", "encoder", "baseline", "classifier", "attack", "evaluation", "inspection", "transfer" or
            "distances".
        settings: everything that decides the product and is no other cell; JSON values.
        inputs: the cells whose products it takes, by their part in it.
        where: what has to be known to do it and does not decide the product: where a model or a corpus lies.
        label: what a person is shown.
    """

    kind: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, Cell] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of kind, revision, settings and the inputs' keys: equal for equal work, and for nothing else."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()

    def record(self) -> dict[str, Any]:
        """What is hashed."""
        inputs = {name: cell.key for name, cell in self.inputs.items()}
        revision = REVISIONS.get(self.kind, 1)
        said = {"revision": revision} if revision > 1 else {}  # cells of before there were any keep their names
        return {"kind": self.kind, **said, "settings": self.settings, "inputs": inputs}

    def needed(self) -> Iterator[Cell]:
        """The cells that have to be there before it, and itself, each before those that take it."""
        for cell in self.inputs.values():
            yield from cell.needed()
        yield self


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """The cells and all that they need, each once, inputs first."""
    return list({cell.key: cell for wanted in cells for cell in wanted.needed()}.values())


class Store:
    """The folder in which finished cells are kept.

    Args:
        folder: it is made when the first cell is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, cell: Cell) -> Path:
        """The folder of a cell's product; a model that was there before stays where it is."""
        if cell.kind == "model":
            return Path(cell.where["path"])
        return self.folder / f"{cell.kind}-{cell.key[:_KEY_DIGITS]}"

    def product(self, cell: Cell) -> Path:
        """A model's folder, or a result file."""
        if cell.kind == "model":
            return self.place(cell)
        return self.place(cell) / ("model" if cell.kind in _MODELS else RESULT_FILE)

    def finished(self, cell: Cell) -> bool:
        """Whether there is nothing left to do for it.

        Raises:
            UserError: the folder holds another cell whose name begins alike, or a damaged one.
        """
        if cell.kind == "model":
            return True
        path = self.place(cell) / CELL_FILE
        if not path.exists():
            return False
        if _key_in(path) != cell.key:
            raise UserError(f"{path} is damaged or of other work: remove the folder {path.parent}")
        return True

    def damage(self, cell: Cell) -> str | None:
        """What is wrong with a finished cell on disk, which has to be made again then; None where nothing is.

        Raises:
            UserError: its result is whole, and another cell's or another run's.
        """
        path = self.place(cell) / CELL_FILE
        if cell.kind == "model" or not path.exists():
            return None
        if _key_in(path) is None:
            return f"{path} is damaged"
        product, file = self.product(cell), self._result_file(cell)
        try:
            result, state = read_with_state(file)
        except UserError as error:
            return str(error)
        if state == "changed":
            return f"{file} was changed after it was written"
        kept, found = read_object(path).get("result_sha256"), content_sha256(result)
        if kept is not None and kept != found:
            raise EndsRun(
                f"{file} is the result {shown(found)}, and the cell in {path.parent} ended in {shown(kept)}: put its "
                "own back, or remove the folder to have it made again"
            )
        if file.parent != product:
            return None
        try:
            run = digest_in(product)
        except UserError as error:
            return str(error)
        refuse_foreign(file, result.get(RUN), run)
        other = altered_files(product, result["model_files"])
        return f"{product} does not hold what was written: {', '.join(other)}" if other else None

    def _result_file(self, cell: Cell) -> Path:
        return self.place(cell) / "model" / RESULT_FILE if cell.kind in _MODELS else self.place(cell) / RESULT_FILE

    def left(self, cells: Iterable[Cell]) -> dict[str, str]:
        """By their keys the cells that have to be made, with what is wrong with those that are there and damaged."""
        damaged = ((cell, self.damage(cell)) for cell in cells)
        return {cell.key: damage or "" for cell, damage in damaged if damage is not None or not self.finished(cell)}

    @contextlib.contextmanager
    def alone(self, cell: Cell) -> Iterator[None]:
        """Have a cell to this process inside the block.

        Raises:
            InUse: another process is making it.
        """
        place = self.place(cell)
        with made_for(place.parent), locked(place.parent / f".{place.name}.lock", place):
            yield

    def discard(self, cell: Cell) -> None:
        """Remove what is there of a cell."""
        shutil.rmtree(self.place(cell), ignore_errors=True)

    def finish(self, cell: Cell, began: float, jobs: int = 1) -> None:
        """Mark a cell as finished.

        Args:
            cell: which.
            began: `time.monotonic` at its start.
            jobs: how many cells were made at once.
        """
        seconds = time.monotonic() - began
        record = {"key": cell.key, "label": cell.label, **cell.record(), "seconds_of_last_run": seconds, "jobs": jobs}
        result = content_sha256(read_object(self._result_file(cell)))
        write_json(self.place(cell) / CELL_FILE, {**record, "result_sha256": result})

    def told(self, cells: Iterable[Cell]) -> list[str]:
        """Return a line for each log of a finished training that is damaged; its cell is of use all the same."""
        trained = [self.product(cell) for cell in cells if cell.kind in _MODELS and self.finished(cell)]
        return [line for product in trained for line in damage_in(product)]

    def jobs(self, cell: Cell) -> int:
        """How many cells were made at once when a finished one was; 1 where its record does not say."""
        jobs = read_object(self.place(cell) / CELL_FILE).get("jobs")
        return jobs if isinstance(jobs, int) else 1

    def records(self) -> Iterator[dict[str, Any]]:
        """What was written of every finished cell, of whatever table; damaged ones are left out."""
        needed: dict[str, Any] = {"kind": str, "settings": dict, "seconds_of_last_run": (int, float)}
        for path in sorted(self.folder.glob(f"*/{CELL_FILE}")):
            record = read_object(path)
            if all(isinstance(record.get(name), kind) for name, kind in needed.items()):
                yield record


def _key_in(path: Path) -> str | None:
    """The key of the finished cell that a file names; None where it is damaged."""
    key = read_object(path).get("key")
    return key if isinstance(key, str) else None
