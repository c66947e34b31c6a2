"""`holdfast reproduce`: a table, from its definition to the measured values beside the published ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import EndsRun, UserError
from holdfast.experiments.cell_execution import make
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store, in_order
from holdfast.experiments.cluster_run import make_by_jobs
from holdfast.experiments.definition import known_tables, read_definition
from holdfast.experiments.differences import differences
from holdfast.experiments.durations import time_left
from holdfast.experiments.parallel import WAIT, devices_here, make_in_parallel, ready
from holdfast.experiments.preparation import Prepared, prepare, whole_names
from holdfast.experiments.render import latex, markdown
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.table_rows import average_rows, result_of, value_row
from holdfast.files import InUse, output_lock, write_text
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.results import new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console

NOT_YET = "not made yet"


def reproduce(
    settings: ReproduceSettings,
    *,
    prepared: Prepared | None = None,
    failed: Mapping[str, str] | None = None,
    console: Console | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """Make the missing cells of a table, and return the result, which is also written to ``result_file``.

    The data and resources of all cells are checked first (`prepare`). A cell that cannot be made appears in the table
    with the reason; the others are still made, without cells that only it would need. After a kill, the same call
    resumes the work. Several calls, also on several machines, can share the cells of one table: each cell is locked
    while it is made, and the result only while it is written. ``prepared`` is what `prepare` returned for the table;
    None: it is prepared here. ``failed`` is what `make_cells` returned for it; None: its cells are made here.

    Raises:
        UserError: there is no such table, scale or model, or a mistake ends the whole run (`EndsRun`).
    """
    from rich.console import Console

    console = console or Console(quiet=True)
    command = ["holdfast", "reproduce", settings.name] if command is None else command
    if prepared is None:
        (prepared,) = prepare([settings])
    definition, entries, store = prepared.definition, prepared.entries, prepared.store
    model, corpus = prepared.setting.model, prepared.setting.corpus
    identity = {"model_sha256": "", "model_files": {}} if model is None else model_identity(resolve_model(model))
    for line in prepared.corpus_lines():
        console.print(line, markup=False, highlight=False)
    began = time.monotonic()
    if settings.so_far:
        failed = dict.fromkeys(store.left(prepared.cells), NOT_YET)
    elif failed is None:
        failed = make_cells([prepared], console, command)
    rows = [value_row(definition, entry, store, failed) for entry in entries]
    rows += average_rows(definition, rows)
    result = new_result(
        "reproduce",
        command=command,
        model=model or "",
        identity=identity,
        protocol={
            "table": definition.name,
            "title": definition.title,
            "source": definition.source,
            "claim": definition.claim,
            "note": definition.note,
            "figure": definition.figure,
            "left_out": list(definition.left_out),
            "scale": settings.scale,
            "changes": prepared.applied,
            "overruled": {name: list(rows) for name, rows in prepared.overruled.items()},
            "only": whole_names(settings.only, [row.name for row in definition.rows]),
            "only_columns": whole_names(settings.columns, (*definition.columns, *definition.averages)),
            "seeds": settings.seeds,
            "corpus": corpus,
            "resources": dict(vars(settings.resource_names)),
            "columns": [*definition.columns, *definition.averages],
            "against": settings.against or definition.against,
        },
        seed=1,
        results=rows,
        timing={"reproduce_seconds": time.monotonic() - began},
    )
    if prepared.partners:
        made = {cell.key: cell for cell in prepared.cells}
        result["differences"] = differences(
            rows, definition.averages, prepared.partners, lambda key: result_of(made[key], store)
        )
    _write(settings, result)
    return result


def _write(settings: ReproduceSettings, result: dict[str, Any]) -> None:
    """Write the result and its pages, once no other call writes them."""
    while True:
        try:
            with output_lock(settings.result_file):
                write_result(settings.result_file, result)
                write_text(settings.result_file.with_suffix(".md"), markdown(result))
                write_text(settings.result_file.with_suffix(".tex"), latex(result))
            return
        except InUse:
            time.sleep(WAIT)


def cells_at_once(settings: ReproduceSettings) -> int:
    """Return the number of cells that are made at the same time in processes of the command."""
    return settings.jobs or devices_here()


def make_cells(tables: Sequence[Prepared], console: Console, command: list[str]) -> dict[str, str]:
    """Make every cell of tables with one output once, inputs first, and return the reason for each that was not made.

    Raises:
        UserError: a mistake ends the whole run (`EndsRun`).
    """
    for line in (line for each in tables for line in (*each.overruled_lines(), *each.reason_lines())):
        console.print(line, markup=False, highlight=False)
    store, setting, settings = tables[0].store, tables[0].setting, tables[0].settings
    every = in_order(cell for each in tables for cell in each.cells)
    left = store.left(every)
    for damage in filter(None, left.values()):
        console.print(f"{damage}: it is made again", markup=False, highlight=False)
    for line in store.describe(cell for cell in every if cell.key not in left):
        console.print(line, markup=False, highlight=False)
    cells = in_order(cell for each in tables for cell in each.wanted)
    todo = store.to_make(cells, left)
    console.print(f"{len(cells)} cells, {len(cells) - len(todo)} of them finished", highlight=False)
    jobs = cells_at_once(settings)
    if settings.executor is not None:
        failed = make_by_jobs(todo, store, setting, settings, console=console, command=command)
    elif jobs > 1 and len(todo) > 1:
        failed = make_in_parallel(todo, store, setting, jobs, console=console, command=command)
    else:
        failed = _make_in_turn(todo, store, setting, console, command)
    reasons = {key: why for each in tables for key, why in each.reasons.items() if key in left}
    return {**reasons, **failed}


def _make_in_turn(
    todo: Sequence[Cell], store: Store, setting: Setting, console: Console, command: list[str]
) -> dict[str, str]:
    """Make one cell after the other; wait at the end for cells that another run is making."""
    failed: dict[str, str] = {}
    waiting, announced = list(todo), set[str]()

    def ended(cell: Cell) -> bool:
        """Make a cell or record why it cannot be made; return False if another run is making it."""
        new = cell.key not in announced
        if new:
            announced.add(cell.key)
            left = time_left(waiting, store)
            console.print(
                f"[{len(announced)}/{len(todo)}] {cell.kind}: {cell.label}{left}", markup=False, highlight=False
            )
        try:
            make(cell, store, setting, console, command)
        except InUse as error:
            if new:
                console.print(f"left for later: {error}", markup=False, highlight=False)
            return False
        except EndsRun:
            raise
        except UserError as error:
            failed[cell.key] = str(error)
            console.print(f"not made: {error}", markup=False, highlight=False)
        return True

    while open_ := ready(waiting, (), failed):
        cell = next(filter(ended, open_), None)
        if cell is None:
            time.sleep(WAIT)
        else:
            waiting.remove(cell)
    return failed


def describe_tables() -> list[dict[str, Any]]:
    """Describe every table and figure that comes with holdfast: name, kind, title, source, and full size."""
    tables = [read_definition(name, "paper") for name in known_tables()]
    return [
        {
            "table": table.name,
            "kind": "figure" if table.figure is not None else "table",
            "title": table.title,
            "source": table.source,
            "rows": len(table.rows),
            "columns": len(table.columns) + len(table.averages),
        }
        for table in tables
    ]
