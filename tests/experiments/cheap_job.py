"""A job that makes a cell without work, or fails as the cell's settings say; cheap, since it does not import torch."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.experiments.cells import CELL_FILE, Cell, Store
from holdfast.files import write_json

BEGAN = "holdfast begins with the cell"


@dataclass
class CheapJob:
    cell: Cell
    store: Store

    def __call__(self) -> tuple[str, str]:
        print(BEGAN, flush=True)
        place = self.store.place(self.cell)
        place.mkdir(parents=True, exist_ok=True)
        for needed in self.cell.inputs.values():
            assert self.store.finished(needed)
        tries = place / "tries"
        tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
        does = self.cell.settings["does"]
        first = len(tries.read_text()) == 1
        if does == "wait":
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # submitit has it ignored
            while not (self.store.folder / "go").exists():
                time.sleep(0.05)
        if does == "die" or (does == "die once" and first):
            os.kill(os.getpid(), signal.SIGKILL)
        if does == "in use once" and first:
            return "in use", f"{place} is in use by process 7 on laptop"
        if does == "raise":
            raise ValueError("there is a hole in the bucket")
        if does in ("not made", "ends the run"):
            return does, "the corpus is empty"
        write_json(place / CELL_FILE, {"key": self.cell.key})
        return "made", ""


def tries_of(store: Store, cell: Cell) -> int:
    """How often a job began with the cell."""
    path = Path(store.place(cell) / "tries")
    return len(path.read_text()) if path.exists() else 0
