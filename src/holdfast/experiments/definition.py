"""The definition of a table in a YAML file: rows × columns, the pipeline of each cell, and the published values.

```yaml
title: Success rates of attacks
source: ADCL (Meng et al. 2022), Table 1
shared: {attack: {split: test}}       # in every cell
rows:                                 # the product of these axes, in this order
  data: {AG: {classifier: {task: ag_news}}, IMDB: {classifier: {task: imdb}}}
  pretraining: {NP: {encoder: {method: none}}, ADCL: {encoder: {method: adcl}}}
skip: [{data: IMDB, pretraining: ADCL}]
columns:
  Acc.: {measure: accuracy}
  PWWS: {attack: {recipe: pwws}, measure: success_rate}
averages: {Avg.: [PWWS]}
cells: {AG NP: {PWWS: {not_run: no time}}} # additions for single cells
published: {AG NP: [94.2, 63.6]}      # in the order of the columns; null where there is none
against: pretraining=NP               # the row that the others are compared with: its name, or AXIS=LABEL; or a column
digits: 2                             # decimals shown; a column can have its own
note: How the paper is read where it is ambiguous.
figure: {kind: scatter, x: Acc., y: PWWS} # for a figure of a paper: how it is drawn
scales: {smoke: {only: {data: [AG]}}} # changes to this table at a scale
```

A cell's pipeline merges ``shared``, its row, its column and its entry under ``cells``; later values override earlier
ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import UserError, did_you_mean
from holdfast.experiments.baseline_values import baselines
from holdfast.experiments.cell_schema import MOST_DIGITS, check_settings, read_pipeline, texts_wrong
from holdfast.experiments.figures import read_figure
from holdfast.experiments.table_definition import DIGITS, WHOLE_ROW, Definition, Pipeline, Row, merged
from holdfast.experiments.yaml_table import Place, TableFile
from holdfast.files import expanded

__all__ = [
    "SCALES",
    "WHOLE_ROW",
    "Definition",
    "Pipeline",
    "Row",
    "known_tables",
    "merged",
    "read_definition",
    "tables_folder",
    "tables_named",
]

SCALES = ("smoke", "small", "paper")
_KEYS = ("title", "source", "claim", "note", "digits", "shared", "rows", "skip", "columns", "cells", "averages",
         "published", "against", "figure", "scales")  # fmt: skip
_NEEDED = ("title", "source", "rows", "columns")
_CHANGES = ("settings", "shared", "only", "drop", "rows", "columns")


def _among(label: str | None, labels: Any) -> bool:
    """Return True if ``labels``, a label or a list of labels, contains ``label``."""
    return label in labels if isinstance(labels, list) else label == labels


def tables_folder() -> Path:
    """Return the folder of the tables that come with holdfast."""
    return Path(__file__).parent / "tables"


def known_tables() -> list[str]:
    """Return the sorted names of the tables that come with holdfast, "adcl/table1" and so on."""
    folder = tables_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.yaml"))


def tables_named(words: Sequence[str]) -> list[str]:
    """Return the tables that the words name, each once: "all", a paper for all of its tables, or a table's own name."""
    known = known_tables()
    of_papers: dict[str, list[str]] = {"all": known}
    for name in known:
        of_papers.setdefault(name.partition("/")[0], []).append(name)
    return list(dict.fromkeys(name for word in words for name in of_papers.get(word, [word])))


def read_definition(name: str, scale: str) -> Definition:
    """Read the definition of a table at a scale, by its name or from a YAML file.

    Raises:
        UserError: there is no such table or file (the nearest name is suggested), or the file does not define a valid
            table (with ``file:line``).
    """
    known = known_tables()
    if name in known:
        path = tables_folder() / f"{name}.yaml"
    elif name.endswith((".yaml", ".yml")):
        path = expanded(name)
    else:
        raise UserError(
            f"unknown table {name!r}{did_you_mean(name, known)}: `holdfast reproduce list` shows all; "
            "one of your own is a FILE.yaml"
        )
    return _DefinitionReader(TableFile(path)).definition(name if name in known else path.stem, scale)


class _DefinitionReader:
    """The reader of a table's file. It checks the parts of all scales, whichever scale is asked for."""

    def __init__(self, file: TableFile) -> None:
        self.file = file

    def definition(self, name: str, scale: str) -> Definition:
        """Return the definition at a scale."""
        file, at = self.file, ("scales", scale)
        self._check()
        dropped = file.mapping(at).get("drop") or ()
        columns = {
            column: merged(file.mapping(("columns", column)), file.mapping((*at, "columns", column)))
            for column in file.mapping(("columns",))
            if column not in dropped
        }
        rows = tuple(self._rows(file.mapping((*at, "only")), (*at, "rows")))
        if not rows or not columns:
            raise file.wrong(at, f"no rows or no columns are left at the scale {scale}")
        averages = {
            average: [column for column in over if column in columns]
            for average, over in file.mapping(("averages",)).items()
        }
        averages = {average: over for average, over in averages.items() if over}
        definition = Definition(
            name=name,
            title=file.text(("title",), needed=True),
            source=file.text(("source",), needed=True),
            claim=file.text(("claim",)),
            rows=rows,
            columns=columns,
            averages=averages,
            published=self._published(columns, averages),
            shared=merged(file.mapping(("shared",)), file.mapping((*at, "shared"))),
            settings=file.mapping((*at, "settings")),
            singles=self._singles(),
            digits=file.whole_number(("digits",), 0, MOST_DIGITS) if "digits" in file.mapping(()) else DIGITS,
            against=file.text(("against",)) or None,
            note=file.text(("note",)),
            figure=read_figure(file, [*columns, *averages], scale),
            left_out=tuple(self._left_out(at)),
        )
        self._check_cells(definition, scale)
        return definition

    def _check(self) -> None:
        """Check what does not depend on the scale: the names in the file, and all parts of pipelines."""
        file = self.file
        file.check_keys((), _KEYS)
        for key in _NEEDED:
            if key not in file.mapping(()):
                raise UserError(f"{file.path}: a table needs {key!r}")
        for key in ("rows", "columns"):
            if not file.mapping((key,)):
                raise file.wrong((key,), f"the table has no {key}")
        for at in self._pipeline_places():
            read_pipeline(file, at)
        self._check_skip()
        self._check_row_names()
        self._check_against()
        for average in file.mapping(("averages",)):
            if average in file.mapping(("columns",)):
                raise file.wrong(("averages", average), f"{average!r} is the name of a column already")
            file.check_names(("averages", average), file.mapping(("columns",)), "column")
        self._check_scales()

    def _pipeline_places(self, under: Place = ()) -> Iterator[Place]:
        """Yield the places of pipeline parts, in the table itself or under one of its scales."""
        yield (*under, "shared")
        for axis in self.file.mapping((*under, "rows")):
            yield from ((*under, "rows", axis, label) for label in self.file.mapping((*under, "rows", axis)))
        yield from ((*under, "columns", column) for column in self.file.mapping((*under, "columns")))

    def _check_skip(self) -> None:
        """Check the skipped combinations: each maps axes to a label or a list of labels."""
        file = self.file
        if file.get(("skip",)) is None:
            return
        for place, _ in enumerate(file.entries(("skip",), "combinations, each {axis: label}")):
            at = ("skip", place)
            if not file.mapping(at, needed=True):
                raise file.wrong(at, "a combination without an axis would skip every row")
            self._check_labels(at, alone=True)

    def _check_labels(self, at: Place, *, alone: bool = False) -> None:
        """Check a mapping of axes to lists of their labels or, with ``alone``, to single labels."""
        self.file.check_keys(at, self.file.mapping(("rows",)), "axis")
        for axis in self.file.mapping(at):
            labels = self.file.mapping(("rows", axis))
            self.file.check_names((*at, axis), labels, "label", f" on the axis {axis!r}", alone=alone)

    def _check_row_names(self) -> None:
        """Check that row names are unique: results, published values and single cells are identified by them."""
        found: dict[str, Row] = {}
        for row in self._rows():
            if (other := found.setdefault(row.name, row)) is not row:
                axis = next(axis for axis in row.labels if row.labels[axis] != other.labels[axis])
                what = f"two rows have the name {row.name!r}, their labels joined: another label is needed"
                raise self.file.wrong(("rows", axis, row.labels[axis]), what)

    def _check_against(self) -> None:
        """Check that ``against`` names a row, an axis and one of its labels, or a column."""
        if self.file.get(("against",)) is None:
            return
        try:
            rows = {row.name: row.labels for row in self._rows()}
            baselines(rows, self.file.column_names(), self.file.text(("against",), needed=True))
        except UserError as error:
            raise self.file.wrong(("against",), f"'against': {error}") from error

    def _check_scales(self) -> None:
        """Check that the rows, columns and labels that a scale changes exist."""
        file = self.file
        file.check_keys(("scales",), SCALES, "scale")
        for scale in file.mapping(("scales",)):
            at: Place = ("scales", scale)
            file.check_keys(at, _CHANGES)
            check_settings(file, (*at, "settings"))
            self._check_labels((*at, "only"))
            if file.get((*at, "drop")) is not None:
                file.check_names((*at, "drop"), file.mapping(("columns",)), "column")
            file.check_keys((*at, "columns"), file.mapping(("columns",)), "column")
            file.check_keys((*at, "rows"), file.mapping(("rows",)), "axis")
            for axis in file.mapping((*at, "rows")):
                file.check_keys((*at, "rows", axis), file.mapping(("rows", axis)), "label")
            for place in self._pipeline_places(at):
                read_pipeline(file, place)

    def _check_cells(self, definition: Definition, scale: str) -> None:
        """Check that every cell to be made has a measure, and that the texts of an inspection fit its kind."""
        for row, column in itertools.product(definition.rows, definition.columns):
            cell = definition.cell(row, column)
            if "not_run" in cell:
                continue
            if "measure" not in cell:
                raise self.file.wrong(("columns", column), f"the column {column!r} has no 'measure'")
            if wrong := texts_wrong(cell.get("inspection", {})):
                raise self.file.wrong(self._deciding_place(row, column, scale, ("inspection", "texts")), wrong)

    def _deciding_place(self, row: Row, column: str, scale: str, keys: Place) -> Place:
        """Return the place of the setting ``keys`` that overrides all others for a cell."""
        by_priority: list[Place] = [("cells", row.name, column), ("cells", row.name, WHOLE_ROW)]
        labels: list[Place] = [("rows", axis, label) for axis, label in reversed([*row.labels.items()])]
        for places in ([("columns", column)], labels, [("shared",)]):
            by_priority += [*(("scales", scale, *at) for at in places), *places]
        return next((*at, *keys) for at in by_priority if self.file.get((*at, *keys)) is not None)

    def _singles(self) -> dict[str, dict[str, Pipeline]]:
        """Return the pipeline parts of single cells; their rows and columns must be in the file."""
        file = self.file
        file.check_keys(("cells",), [row.name for row in self._rows()], "row")
        for name in file.mapping(("cells",)):
            file.check_keys(("cells", name), [*file.mapping(("columns",)), WHOLE_ROW], "column")
        return {
            name: {column: read_pipeline(file, ("cells", name, column)) for column in file.mapping(("cells", name))}
            for name in file.mapping(("cells",))
        }

    def _left_out(self, at: Place) -> Iterator[str]:
        """Yield descriptions of what a scale leaves out: labels of row axes, and columns."""
        for axis, kept in self.file.mapping((*at, "only")).items():
            out = [label for label in self.file.mapping(("rows", axis)) if label not in kept]
            yield f"{axis} {', '.join(out)}"
        if dropped := self.file.mapping(at).get("drop"):
            yield f"columns {', '.join(dropped)}"

    def _rows(self, only: Mapping[str, Sequence[str]] | None = None, changes: Place = ()) -> Iterator[Row]:
        """Yield the rows: the product of the axes without skipped ones; ``changes`` is where a scale changes rows."""
        file, only = self.file, only or {}
        skipped = file.get(("skip",)) or []
        choices = [[(axis, label) for label in file.mapping(("rows", axis))] for axis in file.mapping(("rows",))]
        for chosen in map(dict, itertools.product(*choices)):
            if any(chosen[axis] not in wanted for axis, wanted in only.items()):
                continue
            if any(all(_among(chosen.get(axis), out[axis]) for axis in out) for out in skipped):
                continue
            places = [(*at, axis, label) for at in (("rows",), changes) if at for axis, label in chosen.items()]
            yield Row(chosen, merged(*map(file.mapping, places)))

    def _published(
        self, columns: Mapping[str, Pipeline], averages: Mapping[str, Sequence[str]]
    ) -> dict[str, list[float | None]]:
        """Return the published values of the remaining columns, for every row of the file."""
        file, column_names = self.file, self.file.column_names()
        kept = [column_names.index(column) for column in (*columns, *averages)]
        found = {}
        file.check_keys(("published",), [row.name for row in self._rows()], "row")
        for name in file.mapping(("published",)):
            at = ("published", name)
            entries = file.entries(at, "numbers")
            if len(entries) != len(column_names):
                raise file.wrong(at, f"{len(column_names)} values are needed, one for each column, not {len(entries)}")
            values = [None if value is None else file.number((*at, place)) for place, value in enumerate(entries)]
            found[name] = [values[place] for place in kept]
            for place, average in enumerate(averages, start=len(columns)):
                if len(averages[average]) < len(file.mapping(("averages",))[average]):
                    found[name][place] = None  # the published mean is over more columns
        return found
