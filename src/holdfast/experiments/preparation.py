"""The preparation of tables: their cells, and what is known of these before anything is made.

`reproduce` and its plan both begin with it, so that a plan refuses what the run would refuse, with the same line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast.data.sources import local_wikipedia
from holdfast.errors import EndsRun, UserError, one_of
from holdfast.experiments.baseline_values import ValuePlace, baselines
from holdfast.experiments.cell_checks import CellChecks
from holdfast.experiments.cell_planning import AS_IT_IS, FIRST_SEED, Planner, Setting
from holdfast.experiments.cells import Cell, Store, in_order
from holdfast.experiments.definition import SCALES, Definition, Pipeline, Row, merged, read_definition
from holdfast.experiments.input_hashes import Identities
from holdfast.experiments.job_options import check_jobs
from holdfast.experiments.render import QUOTED
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.row_names import named_by_rows
from holdfast.experiments.scales import Scale, read_scale
from holdfast.experiments.table_rows import Entry
from holdfast.number_ranges import check_numbers


@dataclass(frozen=True)
class Prepared:
    """A table before anything of it is made.

    Attributes:
        settings: the settings of its reproduction.
        definition: its definition at the scale.
        setting: the inputs that its cells share.
        entries: its values, each with its cells, or the reasons why there are none.
        partners: the place of the baseline of each compared value.
        store: where its cells are kept.
        reasons: for each unfinished cell that cannot be made, by its key, the reason.
        applied: the user's changes of the scale that hold in some row.
        overruled: for each change that a row's own setting overrules, the names of these rows.
        own_corpus: whether the corpus was named, by the user or by the scale.
    """

    settings: ReproduceSettings
    definition: Definition
    setting: Setting
    entries: Sequence[Entry]
    partners: Mapping[ValuePlace, ValuePlace]
    store: Store
    reasons: Mapping[str, str]
    applied: Pipeline
    overruled: Mapping[str, Sequence[str]]
    own_corpus: bool

    @cached_property
    def cells(self) -> list[Cell]:
        """Every cell that was planned, inputs first."""
        return _cells(self.entries)

    @cached_property
    def wanted(self) -> list[Cell]:
        """The cells of values that can be made or are finished, and all that they need, inputs first."""
        ends = (cell for entry in self.entries for cell in entry.cells if isinstance(cell, Cell))
        needed = in_order(end for end in ends if end.key not in self.reasons)
        return [cell for cell in needed if cell.key not in self.reasons]

    def not_made(self) -> dict[str, list[str]]:
        """Return the reasons why values cannot be made, each once with the values' names; not those that are quoted."""
        found: dict[str, list[str]] = {}
        for entry in self.entries:
            for cell in {cell if isinstance(cell, str) else cell.key: cell for cell in entry.cells}.values():
                reason = cell if isinstance(cell, str) else self.reasons.get(cell.key)
                if reason is not None and not reason.startswith(QUOTED):
                    found.setdefault(reason, []).append(f"{entry.row.name}: {entry.column}")
        return found

    @property
    def is_empty(self) -> bool:
        """True if no value can be made."""
        cells = (cell for entry in self.entries for cell in entry.cells)
        return all(isinstance(cell, str) or cell.key in self.reasons for cell in cells)

    def corpus_lines(self) -> list[str]:
        """Return a line about the corpus if cells train on one that nobody named."""
        corpus = self.setting.corpus
        if self.own_corpus or corpus is None or all(cell.where.get("corpus") != corpus for cell in self.cells):
            return []
        return [f"encoders train on {corpus}, the data folder's Wikipedia: --corpus names another"]

    def reason_lines(self) -> list[str]:
        """Return a line for each reason why values cannot be made."""
        return [
            f"cannot be made ({values[0]}{f' and {len(values) - 1} more' if len(values) > 1 else ''}): {reason}"
            for reason, values in self.not_made().items()
        ]

    def overruled_lines(self) -> list[str]:
        """Return a line for each change of the scale that rows overrule."""
        lines = []
        for name, rows in self.overruled.items():
            stage, _, setting = name.partition(".")
            everywhere = "" if setting in self.applied.get(stage, {}) else ", and changes nothing"
            some = ", ".join(rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")
            lines.append(f"--set {name} is overruled by the table's own setting{everywhere}: rows {some}")
        return lines


def prepare(tables: Sequence[ReproduceSettings]) -> list[Prepared]:
    """Plan the cells of tables that share their data and resources, and check what each needs; nothing is made.

    Raises:
        UserError: a table, a scale or the model to start from does not exist, or a mistake ends the run (`EndsRun`).
    """
    identity = Identities(tables[0].data)
    checks: CellChecks | None = None
    found = []
    for settings in tables:
        definition, scale, setting = _read(settings)
        if setting.model is not None:
            identity.resolved(setting.model)
        partners = _partners(definition, settings)
        checks = checks or CellChecks(setting, identity)
        changes = _Changes(scale.changes)
        entries = planned_entries(definition, Planner(setting, identity), settings, changes)
        store = Store(settings.output / "cells")
        cells = _cells(entries)
        unfinished = store.to_make(cells, {cell.key for cell in cells if not _is_finished(store, cell)})
        reasons = {} if settings.so_far else checks.unmakeable(unfinished)
        found.append(
            Prepared(
                *(settings, definition, setting, entries, partners, store, reasons),
                changes.applied(),
                changes.overruled(),
                settings.corpus is not None or scale.corpus is not None,
            )
        )
    return found


def no_values(tables: Sequence[tuple[str, Sequence[str]]], of: int) -> str:
    """Return the line for tables without a value: their names with their reasons, out of so many tables."""
    names = ", ".join(name for name, _ in tables[:3]) + (f" and {len(tables) - 3} more" if len(tables) > 3 else "")
    which = names if of == 1 else f"{len(tables)} of {of} tables ({names})"
    reasons = [reason for _, given in tables for reason in given if not reason.startswith(QUOTED)]
    return f"{which}: no value could be made: {reasons[0] if reasons else 'all of them are quoted'}"


def cells_of(settings: ReproduceSettings) -> list[Cell]:
    """Return every cell of a table that can be planned, inputs first; nothing is made.

    Raises:
        UserError: as :func:`prepare`.
    """
    (prepared,) = prepare([settings])
    return prepared.cells


def _read(settings: ReproduceSettings) -> tuple[Definition, Scale, Setting]:
    """Read the definition and the scale, and return them with the inputs that all cells share."""
    one_of("--scale", settings.scale, SCALES)
    check_numbers(settings)
    check_jobs(settings)
    definition = _with_columns(read_definition(settings.name, settings.scale), settings.columns)
    scale = read_scale(settings.scale, settings.changes, definition.settings)
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


def _is_finished(store: Store, cell: Cell) -> bool:
    """Return True if a cell is finished, without the reading of its product that `Store.left` makes."""
    try:
        return store.finished(cell)
    except UserError:  # damaged, so that it is made again, or the run ends with this error
        return False


def _cells(entries: Sequence[Entry]) -> list[Cell]:
    return in_order(cell for entry in entries for cell in entry.cells if isinstance(cell, Cell))


def planned_entries(
    definition: Definition, planner: Planner, settings: ReproduceSettings, changes: _Changes | None = None
) -> list[Entry]:
    """Plan every value of the table for every seed."""
    entries = []
    for row in _rows(definition, settings):
        for column in definition.columns:
            own = definition.cell(row, column)
            measure, digits = own.pop("measure", ""), own.pop("digits", definition.digits)
            pipeline = merged(_scale_settings(planner.setting.scale, own), own)
            if changes is not None:
                changes.compare(row.name, pipeline)
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


class _Changes:
    """The user's changes of the scale, and where they hold."""

    def __init__(self, changes: Pipeline) -> None:
        self._all = {(stage, name): value for stage, given in changes.items() for name, value in given.items()}
        self._holding: dict[tuple[str, str], bool] = {}
        self._overruled: dict[tuple[str, str], dict[str, None]] = {}

    def compare(self, row: str, pipeline: Pipeline) -> None:
        """Note for each change whether it holds in a pipeline, or is overruled there, or concerns no stage of it."""
        for (stage, name), value in self._all.items():
            settings = _settings_in(pipeline, stage)
            if settings is None:
                continue
            kept = settings.get(name, value if stage == "baseline" else None) == value
            if kept and not (name == "evaluations" and "eval_steps" in settings):
                self._holding[stage, name] = True
            else:
                self._overruled.setdefault((stage, name), {})[row] = None

    def applied(self) -> Pipeline:
        """Return the changes that hold in some pipeline."""
        found: Pipeline = {}
        for stage, name in self._all:
            if self._holding.get((stage, name)):
                found.setdefault(stage, {})[name] = self._all[stage, name]
        return found

    def overruled(self) -> dict[str, list[str]]:
        """Return for each change that is overruled, as STAGE.NAME, the names of the rows that overrule it."""
        rows = {change: self._overruled[change] for change in self._all if change in self._overruled}
        return {f"{stage}.{name}": list(names) for (stage, name), names in rows.items()}


def _settings_in(pipeline: Pipeline, stage: str) -> Mapping[str, Any] | None:
    """Return the settings of a stage in a pipeline; None if the pipeline has no such stage, or does not use them."""
    encoder = pipeline.get("encoder", {})
    if stage == "baseline":
        return encoder if "baseline" in encoder else None
    if stage == "encoder" and ("baseline" in encoder or encoder.get("method", AS_IT_IS) == AS_IT_IS):
        return None
    settings: Mapping[str, Any] | None = pipeline.get(stage)
    return settings


def whole_names(words: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the words of an option, joined again where a comma parted a whole name, such as "L2, ε 1e-3"."""
    found, at = [], 0
    while at < len(words):
        ends = (end for end in range(len(words), at, -1) if ", ".join(words[at:end]) in names)
        end = next(ends, at + 1)
        found.append(", ".join(words[at:end]))
        at = end
    return found


def _rows(definition: Definition, settings: ReproduceSettings) -> list[Row]:
    """Return the rows to make.

    Raises:
        UserError: a word of ``--only`` is in the name of no row.
    """
    names = [row.name for row in definition.rows]
    words = whole_names(settings.only, names)
    found = {word: [word] if word in names else [name for name in names if word in name] for word in words}
    unknown = [word for word, rows in found.items() if not rows]
    if unknown:
        raise UserError(f"--only {','.join(unknown)} is in the name of no row; rows: {', '.join(names)}")
    return [row for row in definition.rows if not found or any(row.name in rows for rows in found.values())]


def _with_columns(definition: Definition, names: Sequence[str]) -> Definition:
    """Return the definition with the columns to make.

    Raises:
        UserError: a name of ``--columns`` is that of no column or average.
    """
    known = (*definition.columns, *definition.averages)
    names = whole_names(names, known)
    for name in names:
        one_of("--columns", name, known)
    return definition.with_columns(names) if names else definition


def _partners(definition: Definition, settings: ReproduceSettings) -> dict[ValuePlace, ValuePlace]:
    """Map the place of each compared value to that of its baseline.

    Raises:
        UserError: ``--against`` names none of the rows and columns to make.
    """
    against = settings.against or definition.against
    if against is None:
        return {}
    try:
        rows = {row.name: row.labels for row in _rows(definition, settings)}
        return baselines(rows, (*definition.columns, *definition.averages), against)
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
