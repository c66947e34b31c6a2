"""The memory of the trainings of a plan: each distinct step is measured once, as by `holdfast train --plan`."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.classifiers.splits import train_split_of
from holdfast.data.registry import load_labelled
from holdfast.data.tasks import task_named
from holdfast.errors import EndsRun, UserError
from holdfast.experiments.cell_planning import Setting, paper_options
from holdfast.experiments.cells import Cell
from holdfast.experiments.input_hashes import task_and_split
from holdfast.files import write_text
from holdfast.progress import stage

if TYPE_CHECKING:
    from rich.console import Console

_NO_MEMORY = ("seed", "learning_rate", "epochs", "max_steps", "eval_steps", "accumulate", "max_grad_norm", "selection")
"""Settings of a training that do not change the memory of its step."""
_NOT_OF_TRAIN = ("corpus", "selected_on", "option_files")
_LINES = 64


@dataclass(frozen=True)
class CellMemory:
    """The memory of a training's step.

    Attributes:
        cell: the label of the training; of several with equal steps, the first one's.
        cells: number of trainings with an equal step.
        batch: sentences of a step.
        length: tokens of a sentence at most.
        mini_batch: rows of a mini-batch; None: all in one pass.
        gigabytes: memory of the step as the table runs it; None if it could not be measured.
        fits: whether this fits the GPU.
        fitting: the largest mini-batch that fits, of powers of two; None: not even one row does.
        problem: why it could not be measured.
    """

    cell: str
    cells: int
    batch: int
    length: int
    mini_batch: int | None
    gigabytes: float | None = None
    fits: bool = False
    fitting: int | None = None
    problem: str = ""


def memory_of_trainings(
    trainings: Sequence[Cell], setting: Setting, memory: str, console: Console | None = None
) -> list[CellMemory]:
    """Measure the steps of trainings, each distinct one once, for a GPU of a memory such as "24GB".

    A training that continues another one is measured from the model that the first one starts from.

    Raises:
        UserError: ``memory`` is no such text.
    """
    return [found for _, found in measured_steps(trainings, setting, memory, console)]


def measured_steps(
    trainings: Sequence[Cell], setting: Setting, memory: str, console: Console | None = None
) -> list[tuple[list[Cell], CellMemory]]:
    """Return the trainings with equal steps, each with the memory of its step, as `memory_of_trainings` measures it."""
    alike: dict[str, list[Cell]] = {}
    for cell in trainings:
        alike.setdefault(_step_of(cell), []).append(cell)
    found: list[tuple[list[Cell], CellMemory]] = []
    with stage(console, "measuring steps", unit="trainings", total=len(alike), announce=False) as measuring:
        for cells in alike.values():
            found.append((cells, _measured(cells[0], len(cells), setting, memory)))
            measuring.update(len(found))
    return found


def _step_of(cell: Cell) -> str:
    """Return a text that is the same for trainings whose steps need the same memory."""
    settings = {name: value for name, value in cell.settings.items() if name not in (*_NO_MEMORY, *_NOT_OF_TRAIN)}
    # Sizes, weights and probabilities do not change which tensors there are; numbers of steps, norms and kinds may.
    settings["options"] = {name: value for name, value in settings["options"].items() if not isinstance(value, float)}
    return repr((_start_of(cell), sorted(settings.items())))


def _start_of(cell: Cell) -> Path:
    """Return the folder of the model from which a training, or the first one that it continues, starts."""
    while cell.kind != "model":
        cell = cell.inputs["start"]
    return Path(cell.where["path"])


def _measured(cell: Cell, cells: int, setting: Setting, memory: str) -> CellMemory:
    settings = cell.settings
    mini_batch = settings.get("mini_batch_size")
    shape = (cell.label, cells, settings["batch_size"], settings["max_length"], mini_batch)
    try:
        plan = _plan(cell, setting, memory)
    except EndsRun:
        raise
    except UserError as error:
        return CellMemory(*shape, problem=str(error))
    return CellMemory(*shape, plan["as_asked"] / 1e9, plan["as_asked"] <= plan["usable"], plan["fitting_mini_batch"])


def _plan(cell: Cell, setting: Setting, memory: str) -> dict[str, Any]:
    """Return the plan of a training, as `holdfast train --plan` makes it."""
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import plan

    settings = {name: value for name, value in cell.settings.items() if name not in _NOT_OF_TRAIN}
    files = {name: path for name, path in cell.where.items() if name != "corpus"}
    if "teacher" in cell.inputs:  # not trained yet: it is as large as the model that it starts from
        files["teacher"] = str(_start_of(cell.inputs["teacher"]))
    settings["options"] = {**paper_options(settings["method"]), **settings["options"], **files}
    with tempfile.TemporaryDirectory() as folder:
        corpus = str(cell.where["corpus"])
        if (of_task := task_and_split(corpus)) is not None:
            corpus = str(_texts_of_task(*of_task, setting.data, Path(folder) / "texts.txt"))
        where: dict[str, Any] = {"model": str(_start_of(cell)), "corpus": corpus, "output": Path(folder)}
        config = TrainConfig(**{**settings, **where, "data": setting.data, "plan_memory": memory})
        planned: dict[str, Any] = plan(config)["plan"]
    return planned


def _texts_of_task(task: str, split: str, data: Path | None, path: Path) -> Path:
    """Write a few training texts of a task to a file, and return its path."""
    known = task_named(task)
    labelled = load_labelled(task, train_split_of(known, split or None, data), data=data)
    texts = itertools.islice((text for text in labelled.sentences1 if text.strip()), _LINES)
    write_text(path, "".join(" ".join(text.split()) + "\n" for text in texts))
    return path
