"""`holdfast reproduce`: a table, from its definition to the measured values beside the published ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.data.sources import local_wikipedia
from holdfast.errors import EndsRun, UserError, one_of
from holdfast.experiments.baseline_rows import baselines
from holdfast.experiments.cell_execution import make
from holdfast.experiments.cell_planning import FIRST_SEED, Planner, Setting
from holdfast.experiments.cells import Cell, Store, in_order
from holdfast.experiments.definition import SCALES, Definition, Row, known_tables, merged, read_definition
from holdfast.experiments.differences import differences
from holdfast.experiments.durations import time_left
from holdfast.experiments.parallel import WAIT, devices_here, make_in_parallel, ready
from holdfast.experiments.render import latex, markdown
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.row_names import named_by_rows
from holdfast.experiments.scales import Scale, read_scale
from holdfast.experiments.table_rows import Entry, average_rows, result_of, value_row
from holdfast.files import InUse, exclusive, output_lock, write_text
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.number_ranges import check_numbers
from holdfast.results import new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console

NOT_YET = "not made yet"


@exclusive(lambda settings: output_lock(settings.result_file))
def reproduce(
    settings: ReproduceSettings, *, console: Console | None = None, command: list[str] | None = None
) -> dict[str, Any]:
    """Make the missing cells of a table, and return the result, which is also written to ``result_file``.

    A cell that cannot be made appears in the table with the reason; the others are still made. After a kill, the same
    call resumes the work.

    Raises:
        UserError: there is no such table, scale or model, or a mistake ends the whole run (`EndsRun`).
    """
    from rich.console import Console

    console = console or Console(quiet=True)
    command = ["holdfast", "reproduce", settings.name] if command is None else command
    definition, scale, setting = _read(settings)
    model, corpus = setting.model, setting.corpus
    identity = model_identity(resolve_model(model)) if model is not None else {"model_sha256": "", "model_files": {}}
    partners = _partners(definition, settings)
    entries = _entries(definition, setting, settings)
    if settings.corpus is None and scale.corpus is None and _trains_on(corpus, entries):
        console.print(
            f"encoders train on {corpus}, the data folder's Wikipedia: --corpus names another", highlight=False
        )
    store = Store(settings.output / "cells")
    began = time.monotonic()
    if settings.so_far:
        failed = dict.fromkeys(store.left(_cells(entries)), NOT_YET)
    else:
        failed = _make(entries, store, setting, settings.jobs or devices_here(), console, command)
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
            "changes": scale.changes,
            "only": list(settings.only),
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
    if partners:
        made = {cell.key: cell for cell in _cells(entries)}
        result["differences"] = differences(
            rows, definition.averages, partners, lambda key: result_of(made[key], store)
        )
    write_result(settings.result_file, result)
    write_text(settings.result_file.with_suffix(".md"), markdown(result))
    write_text(settings.result_file.with_suffix(".tex"), latex(result))
    return result


def cells_of(settings: ReproduceSettings) -> list[Cell]:
    """Return every cell of a table that can be planned, inputs first; nothing is made.

    Raises:
        UserError: as :func:`reproduce`, before it begins.
    """
    definition, _, setting = _read(settings)
    _partners(definition, settings)
    return _cells(_entries(definition, setting, settings))


def _read(settings: ReproduceSettings) -> tuple[Definition, Scale, Setting]:
    """Read the definition and the scale, and return them with the inputs that all cells share."""
    one_of("--scale", settings.scale, SCALES)
    check_numbers(settings)
    definition = read_definition(settings.name, settings.scale)
    scale = read_scale(settings.scale, settings.changes)
    model = settings.model or scale.model
    corpus = settings.corpus or scale.corpus or local_wikipedia(settings.data)
    setting = Setting(
        model,
        corpus,
        settings.data,
        settings.resource_names,
        scale.tasks,
        scale.stages,
        settings.vectors,
        settings.translators,
    )
    return definition, scale, setting


def _cells(entries: Sequence[Entry]) -> list[Cell]:
    return in_order(cell for entry in entries for cell in entry.cells if isinstance(cell, Cell))


def _entries(definition: Definition, setting: Setting, settings: ReproduceSettings) -> list[Entry]:
    """Plan every value of the table for every seed."""
    planner = Planner(setting)
    entries = []
    for row in _rows(definition, settings):
        for column in definition.columns:
            own = definition.cell(row, column)
            measure, digits = own.pop("measure", ""), own.pop("digits", definition.digits)
            pipeline = merged(_scale_settings(setting.scale, own), own)
            cells: list[Cell | str] = []
            for seed in range(FIRST_SEED, FIRST_SEED + settings.seeds):
                try:
                    cells.append(planner.plan(pipeline, seed))
                except EndsRun:
                    raise
                except UserError as error:
                    cells.append(str(error))
            entries.append(Entry(row, column, measure, digits, cells))
    return named_by_rows(entries)


def _trains_on(corpus: str | None, entries: Sequence[Entry]) -> bool:
    return corpus is not None and any(cell.where.get("corpus") == corpus for cell in _cells(entries))


def _rows(definition: Definition, settings: ReproduceSettings) -> list[Row]:
    """Return the rows to make."""
    rows = [r for r in definition.rows if not settings.only or any(part in r.name for part in settings.only)]
    if not rows:
        names = ", ".join(row.name for row in definition.rows)
        raise UserError(f"--only {','.join(settings.only)} is in the name of no row; rows: {names}")
    return rows


def _partners(definition: Definition, settings: ReproduceSettings) -> dict[str, str]:
    """Map the name of each compared row to the name of its baseline row.

    Raises:
        UserError: ``--against`` names none of the rows to make.
    """
    against = settings.against or definition.against
    if against is None:
        return {}
    try:
        return baselines({row.name: row.labels for row in _rows(definition, settings)}, against)
    except UserError as error:
        if settings.against is None:
            return {}  # the table's own baseline is left out, at this scale or by --only
        raise UserError(f"--against {error}") from error


def _scale_settings(scale: Mapping[str, Any], pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scale's settings of the stages of a cell; settings of trainings do not apply to baselines."""
    trained = "baseline" not in pipeline.get("encoder", {})
    return {
        stage: settings for stage, settings in scale.items() if stage in pipeline and (trained or stage != "encoder")
    }


def _make(
    entries: Sequence[Entry], store: Store, setting: Setting, jobs: int, console: Console, command: list[str]
) -> dict[str, str]:
    """Make every cell once, inputs first, and return the reason for each that could not be made."""
    cells = _cells(entries)
    left = store.left(cells)
    for damage in filter(None, left.values()):
        console.print(f"{damage}: it is made again", markup=False, highlight=False)
    for line in store.describe(cell for cell in cells if cell.key not in left):
        console.print(line, markup=False, highlight=False)
    todo = [cell for cell in cells if cell.key in left]
    console.print(f"{len(cells)} cells, {len(cells) - len(todo)} of them finished", highlight=False)
    if jobs > 1 and len(todo) > 1:
        return make_in_parallel(todo, store, setting, jobs, console=console, command=command)
    return _make_in_turn(todo, store, setting, console, command)


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
