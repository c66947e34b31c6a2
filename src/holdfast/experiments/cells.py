"""Cells: pieces of work, named by a hash of their inputs and settings. Each is done once and shared by all tables."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import shutil
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import EndsRun, UserError
from holdfast.files import created_folder, locked, read_object, write_json
from holdfast.model_lookup import altered_files
from holdfast.result_layout import is_number
from holdfast.results import content_sha256, read_with_state
from holdfast.runs.run_log import RESULT_FILE
from holdfast.runs.run_record import RUN, damage_in, digest_in, refuse_foreign, shown

CELL_FILE = "cell.json"
"""The last file that is written into a cell's folder: if it exists, the cell is finished."""

REVISIONS: Mapping[str, int] = {
    "translation": 1,
    "encoder": 1,
    "baseline": 1,
    "classifier": 1,
    "attack": 2,
    "evaluation": 1,
    "inspection": 1,
    "transfer": 1,
    "distances": 1,
}
"""The revision of the code of each kind. Raise it when a change alters the product of equal settings: existing cells of
the kind, and all cells that depend on them, are then made again and not mixed with new ones."""

_KEY_DIGITS = 12
_MODELS = ("encoder", "baseline", "classifier")
"""The kinds whose product is the folder of a model."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One piece of work: a training, a classifier, an attack, an evaluation.

    Args:
        kind: "model", "translation", "encoder", "baseline", "classifier", "attack", "evaluation", "inspection",
            "transfer" or "distances".
        settings: JSON values that, with the inputs, determine the product.
        inputs: the cells whose products it takes, by their role.
        where: paths that the work needs and that do not change the product, of a model or a corpus.
        label: the name that is shown to the user.
    """

    kind: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, Cell] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of kind, revision, settings and the inputs' keys: equal if and only if the work is equal."""
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()

    def record(self) -> dict[str, Any]:
        """Return the values that the key is a hash of."""
        inputs = {name: cell.key for name, cell in self.inputs.items()}
        revision = REVISIONS.get(self.kind, 1)
        revised = {"revision": revision} if revision > 1 else {}  # cells from before revisions keep their keys
        return {"kind": self.kind, **revised, "settings": self.settings, "inputs": inputs}

    def needed(self) -> Iterator[Cell]:
        """Yield the cells that it depends on and itself, inputs first; a shared input comes more than once."""
        for cell in self.inputs.values():
            yield from cell.needed()
        yield self


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells and all that they depend on, each once, inputs first."""
    return list({cell.key: cell for wanted in cells for cell in wanted.needed()}.values())


class Store:
    """The folder in which finished cells are kept; it is created with the first cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, cell: Cell) -> Path:
        """Return the folder of a cell; for an existing model, the model's own folder."""
        if cell.kind == "model":
            return Path(cell.where["path"])
        return self.folder / f"{cell.kind}-{cell.key[:_KEY_DIGITS]}"

    def product(self, cell: Cell) -> Path:
        """Return the path of a cell's product: a model's folder, or a result file."""
        if cell.kind == "model":
            return self.place(cell)
        return self.place(cell) / ("model" if cell.kind in _MODELS else RESULT_FILE)

    def finished(self, cell: Cell) -> bool:
        """Return True if the cell is finished.

        Raises:
            UserError: the folder holds a damaged cell, or another one whose key starts with the same digits.
        """
        if cell.kind == "model":
            return True
        path = self.place(cell) / CELL_FILE
        if not path.exists():
            return False
        if _key_in(path) != cell.key:
            raise UserError(f"{path} is damaged or belongs to another cell: remove the folder {path.parent}")
        return True

    def damage(self, cell: Cell) -> str | None:
        """Describe the damage of a finished cell, which must then be repeated; None if there is no damage.

        Files of a model that were removed are no damage (`model_removed`).

        Raises:
            UserError: its result is intact but belongs to another cell or another run.
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
                f"{file} is the result {shown(found)}, and the cell in {path.parent} wrote {shown(kept)}: restore that "
                "file, or remove the folder to repeat the cell"
            )
        if file.parent != product:
            return None
        try:
            run = digest_in(product)
        except UserError as error:
            return str(error)
        refuse_foreign(file, result.get(RUN), run)
        other = [name for name in altered_files(product, result["model_files"]) if (product / name).exists()]
        return f"{product} was changed after it was written: {', '.join(other)}" if other else None

    def _result_file(self, cell: Cell) -> Path:
        return self.place(cell) / "model" / RESULT_FILE if cell.kind in _MODELS else self.place(cell) / RESULT_FILE

    def left(self, cells: Iterable[Cell]) -> dict[str, str]:
        """Return the keys of the cells to make, each with a description of its damage, or an empty text."""
        damaged = ((cell, self.damage(cell)) for cell in cells)
        return {cell.key: damage or "" for cell, damage in damaged if damage is not None or not self.finished(cell)}

    def model_removed(self, cell: Cell) -> bool:
        """Return True if files of a finished cell's model were removed and its result was kept.

        Such a cell can still be read, and is made again only if a cell to make takes its model.
        """
        if cell.kind not in _MODELS or not (self.place(cell) / CELL_FILE).exists():
            return False
        product, files = self.product(cell), read_object(self._result_file(cell)).get("model_files", {})
        return not all((product / name).exists() for name in files)

    def to_make(self, cells: Sequence[Cell], left: Container[str]) -> list[Cell]:
        """Return those of ``cells`` (inputs first) that are ``left``, and those whose removed model they take."""
        needed = {cell.key for cell in cells if cell.key in left}
        for cell in reversed(cells):
            if cell.key in needed:
                needed.update(taken.key for taken in cell.inputs.values() if self.model_removed(taken))
        return [cell for cell in cells if cell.key in needed]

    def usable(self, cell: Cell) -> bool:
        """Return True if a cell is finished and intact, with its model."""
        return self.damage(cell) is None and self.finished(cell) and not self.model_removed(cell)

    @contextlib.contextmanager
    def alone(self, cell: Cell) -> Iterator[None]:
        """Reserve a cell for this process inside the block.

        Raises:
            InUse: another process is making it.
        """
        place = self.place(cell)
        with created_folder(place.parent), locked(place.parent / f".{place.name}.lock", place):
            yield

    def discard(self, cell: Cell) -> None:
        """Remove the folder of a cell."""
        shutil.rmtree(self.place(cell), ignore_errors=True)

    def finish(self, cell: Cell, began: float, jobs: int = 1) -> None:
        """Mark a cell as finished; ``began`` is `time.monotonic` at its start, ``jobs`` the cells made at that time."""
        last = time.monotonic() - began
        result = read_object(self._result_file(cell))
        # Of what was stopped and continued, the other parts are in its own times.
        whole = max(last, _seconds_in(result))
        record = {"key": cell.key, "label": cell.label, **cell.record(), "seconds_of_last_run": last, "seconds": whole}
        write_json(self.place(cell) / CELL_FILE, {**record, "jobs": jobs, "result_sha256": content_sha256(result)})

    def describe(self, cells: Iterable[Cell]) -> list[str]:
        """Return a line for each damaged log of a finished training; the cell can still be used."""
        trained = [self.product(cell) for cell in cells if cell.kind in _MODELS and self.finished(cell)]
        return [line for product in trained for line in damage_in(product)]

    def jobs(self, cell: Cell) -> int:
        """Return the number of cells made at the same time as a finished one; 1 if its record does not hold it."""
        jobs = read_object(self.place(cell) / CELL_FILE).get("jobs")
        return jobs if isinstance(jobs, int) else 1

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records of all finished cells, of any table, without damaged ones."""
        needed: dict[str, Any] = {"kind": str, "settings": dict, "seconds_of_last_run": (int, float)}
        for path in sorted(self.folder.glob(f"*/{CELL_FILE}")):
            record = read_object(path)
            if all(isinstance(record.get(name), kind) for name, kind in needed.items()):
                yield record


def _seconds_in(result: Mapping[str, Any]) -> float:
    """Return the sum of the times of a result's parts; 0 if it has none."""
    timing = result.get("timing")
    entries = timing.items() if isinstance(timing, dict) else ()
    return sum(float(value) for name, value in entries if name.endswith("_seconds") and is_number(value))


def _key_in(path: Path) -> str | None:
    """Return the key in the file of a finished cell; None if the file is damaged."""
    key = read_object(path).get("key")
    return key if isinstance(key, str) else None
