"""The plan of a reproduction: the cells to make, and the estimated time, from the finished cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.experiments.cell_memory import CellMemory, memory_of_trainings
from holdfast.experiments.cells import Cell, in_order
from holdfast.experiments.cluster_plan import PlannedJobs, planned_jobs
from holdfast.experiments.durations import Durations, sort_name
from holdfast.experiments.preparation import Prepared, no_values, prepare
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.training.training_plan import memory_of

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Planned:
    """Cells of one sort.

    Attributes:
        kind: as :class:`~holdfast.experiments.cells.Cell` has it.
        what: the method, task or attack.
        cells: number of cells needed.
        finished: number of these that are finished.
        seconds: estimated time of the others, from finished cells of the same sort, or else kind; 0 if none is left,
            None if no such cell is finished.
    """

    kind: str
    what: str
    cells: int
    finished: int
    seconds: float | None


@dataclass(frozen=True)
class Plan:
    """The plan of one or several tables.

    Attributes:
        sorts: the cells to make, by sort; those of values that cannot be made are left out.
        tables: each table as it is prepared.
        refused: the line with which the run would end if a table has no value that can be made; None if all have one.
        memory: the memory of each training, if it was asked for.
        jobs: the jobs that would be submitted, if cells are made in jobs.
    """

    sorts: Sequence[Planned]
    tables: Sequence[Prepared]
    refused: str | None
    memory: Sequence[CellMemory] = ()
    jobs: Sequence[PlannedJobs] = ()

    def notes(self) -> list[str]:
        """Return lines about overruled changes, and about what cannot be made: each reason once, for all tables."""
        if len(self.tables) == 1:
            return [*self.tables[0].overruled_lines(), *self.tables[0].reason_lines()]
        lines = [f"{each.definition.name}: {line}" for each in self.tables for line in each.overruled_lines()]
        found: dict[str, dict[str, int]] = {}
        for each in self.tables:
            for reason, values in each.not_made().items():
                found.setdefault(reason, {})[each.definition.name] = len(values)
        for reason, tables in found.items():
            names = list(tables)
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            lines.append(f"cannot be made ({sum(tables.values()):,} values of {some}): {reason}")
        return lines


def plan(tables: Sequence[ReproduceSettings], *, console: Console | None = None) -> Plan:
    """Plan the cells that several tables with one output need together, by sort, inputs first. Nothing is made.

    Raises:
        UserError: as `reproduce`, before it begins.
    """
    memory = tables[0].plan_memory
    if memory is not None:
        memory_of(memory)  # an error before the tables are read
    prepared = prepare(tables)
    store = prepared[0].store
    cells = [cell for cell in in_order(cell for each in prepared for cell in each.wanted) if cell.kind != "model"]
    to_do = store.to_make(cells, store.left(cells))
    keys = {cell.key for cell in to_do}
    durations = Durations(store.records())
    sorts: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        sorts.setdefault((cell.kind, sort_name(cell.kind, cell.settings)), []).append(cell)
    planned = []
    for (kind, sort), members in sorts.items():
        left = [cell for cell in members if cell.key in keys]
        planned.append(Planned(kind, sort, len(members), len(members) - len(left), durations.of(left)))
    trainings = [cell for cell in to_do if cell.kind == "encoder"]
    measured = memory_of_trainings(trainings, prepared[0].setting, memory, console) if memory is not None else []
    settings, setting = tables[0], prepared[0].setting
    jobs = planned_jobs(to_do, settings, setting, durations, console) if settings.executor is not None else []
    return Plan(planned, prepared, refusal(prepared), measured, jobs)


def refusal(tables: Sequence[Prepared]) -> str | None:
    """Return the line with which a run ends that has a table without any value that can be made; None if none is."""
    empty = [(each.definition.name, list(each.not_made())) for each in tables if each.is_empty]
    return no_values(empty, len(tables)) if empty else None
