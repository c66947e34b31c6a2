"""A table as a YAML file says it: rows × columns, what is in each cell, and what was published.

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
cells: {AG NP: {PWWS: {not_run: no time}}} # what single cells say besides
published: {AG NP: [94.2, 63.6]}      # in the order of the columns; null where there is none
against: pretraining=NP               # the row that others are compared with: its name, or AXIS=LABEL
digits: 2                             # decimals that are shown; a column can have its own
note: What is read how.
figure: {kind: scatter, x: Acc., y: PWWS} # for a figure of a paper: how it is drawn
scales: {smoke: {only: {data: [AG]}}} # what a scale changes in this table
```

A cell is what ``shared``, its row and its column say together; a later one overrules an earlier one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import UserError, did_you_mean
from holdfast.experiments.against import baselines
from holdfast.experiments.figures import FIGURES as FIGURES
from holdfast.experiments.figures import read_figure
from holdfast.experiments.reading import Place, TableFile
from holdfast.experiments.said import MOST_DIGITS, says, texts_wrong
from holdfast.experiments.said import STAGES as STAGES
from holdfast.values import expanded

SCALES = ("smoke", "small", "paper")
_KEYS = ("title", "source", "claim", "note", "digits", "shared", "rows", "skip", "columns", "cells", "averages",
         "published", "against", "figure", "scales")  # fmt: skip
_NEEDED = ("title", "source", "rows", "columns")
_CHANGES = ("shared", "only", "drop", "rows", "columns")
_DIGITS = 1

_LENGTHS = ("sentences", "max_steps", "epochs")
"""The ways to say how long a training is."""

WHOLE_ROW = "*"
"""In place of a column, under ``cells``: all cells of that row, which its labels together name."""

Pipeline = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row: its label on each axis, and what it says of its cells."""

    labels: Mapping[str, str]
    says: Pipeline

    @property
    def name(self) -> str:
        """The labels, joined."""
        return " ".join(self.labels.values())


@dataclass(frozen=True)
class Definition:
    """A table before any of it is made.

    Attributes:
        name: such as "adcl/table1".
        title: what it shows.
        source: paper and table.
        claim: what the paper concludes from it.
        rows: its rows.
        columns: for each name what it says of its cells.
        averages: for each further column the names of those it is the mean of.
        published: for each row's name the published values, in the order of the columns and then the averages.
        shared: what all cells have in common.
        singles: for a row's name and a column what that cell says besides.
        digits: decimals that are shown.
        against: which row others are compared with, where none is asked for; see `baselines`.
        note: how it is read where the paper leaves that open.
        figure: how it is drawn (see `FIGURES`); None for a table.
        left_out: what the scale leaves out, in words.
    """

    name: str
    title: str
    source: str
    claim: str
    rows: tuple[Row, ...]
    columns: Mapping[str, Pipeline]
    averages: Mapping[str, Sequence[str]]
    published: Mapping[str, Sequence[float | None]]
    shared: Pipeline
    singles: Mapping[str, Mapping[str, Pipeline]] = field(default_factory=dict)
    digits: int = _DIGITS
    against: str | None = None
    note: str = ""
    figure: Mapping[str, Any] | None = None
    left_out: tuple[str, ...] = ()

    def cell(self, row: Row, column: str) -> Pipeline:
        """What a cell is made of."""
        own = self.singles.get(row.name, {})
        return merged(self.shared, row.says, self.columns[column], own.get(WHOLE_ROW, {}), own.get(column, {}))

    def published_value(self, row: Row, column: str) -> float | None:
        """The published value of a cell or an average; None where there is none."""
        values = self.published.get(row.name)
        return None if values is None else values[[*self.columns, *self.averages].index(column)]


def merged(*parts: Mapping[str, Any]) -> Pipeline:
    """Mappings laid over one another, at every depth; a later value overrules an earlier one.

    How long a training is can be said in several ways, of which a later one overrules the others too.
    """
    whole: Pipeline = {}
    for part in parts:
        if any(name in part for name in _LENGTHS):
            whole = {name: value for name, value in whole.items() if name not in _LENGTHS}
        for key, value in part.items():
            before = whole.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            whole[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return whole


def _among(label: str | None, said: Any) -> bool:
    """Whether ``said``, a label or a list of them, holds ``label``."""
    return label in said if isinstance(said, list) else label == said


def tables_folder() -> Path:
    """Where the tables that come with holdfast are."""
    return Path(__file__).parent / "tables"


def known_tables() -> list[str]:
    """Their names: "adcl/table1" and so on."""
    folder = tables_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.yaml"))


def tables_named(words: Sequence[str]) -> list[str]:
    """The tables that words mean, each once: "all", a paper's name for all of its tables, or a table's own name."""
    known = known_tables()
    of_papers: dict[str, list[str]] = {"all": known}
    for name in known:
        of_papers.setdefault(name.partition("/")[0], []).append(name)
    return list(dict.fromkeys(name for word in words for name in of_papers.get(word, [word])))


def read_definition(name: str, scale: str) -> Definition:
    """A table by name, or from a YAML file of one's own, at a scale.

    Raises:
        UserError: there is no such table or file (the nearest name is offered), or the file says something else than
            a table, with ``file:line``.
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
    return _Reader(TableFile(path)).definition(name if name in known else path.stem, scale)


class _Reader:
    """What a file says of a table; what is wrong in any part of it is told at every scale."""

    def __init__(self, file: TableFile) -> None:
        self.file = file

    def definition(self, name: str, scale: str) -> Definition:
        """The table at a scale."""
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
            singles=self._singles(),
            digits=self._digits(),
            against=file.text(("against",)) or None,
            note=file.text(("note",)),
            figure=read_figure(file, [*columns, *averages], scale),
            left_out=tuple(self._left_out(at)),
        )
        self._check_cells(definition, scale)
        return definition

    def _check(self) -> None:
        """What does not depend on the scale: the names in the file, and what it says of cells."""
        file = self.file
        file.known((), _KEYS)
        for key in _NEEDED:
            if key not in file.mapping(()):
                raise UserError(f"{file.path}: a table needs {key!r}")
        for key in ("rows", "columns"):
            if not file.mapping((key,)):
                raise file.wrong((key,), f"the table has no {key}")
        for at in self._all_said():
            says(file, at)
        self._check_skip()
        self._check_row_names()
        self._check_against()
        for average in file.mapping(("averages",)):
            if average in file.mapping(("columns",)):
                raise file.wrong(("averages", average), f"{average!r} is the name of a column already")
            file.names(("averages", average), file.mapping(("columns",)), "column")
        self._check_scales()

    def _all_said(self, under: Place = ()) -> Iterator[Place]:
        """Where something is said of cells: in the table itself, or under one of its scales."""
        yield (*under, "shared")
        for axis in self.file.mapping((*under, "rows")):
            yield from ((*under, "rows", axis, label) for label in self.file.mapping((*under, "rows", axis)))
        yield from ((*under, "columns", column) for column in self.file.mapping((*under, "columns")))

    def _check_skip(self) -> None:
        """A combination names axes, and of each a label or a list of them."""
        file = self.file
        if file.get(("skip",)) is None:
            return
        for place, _ in enumerate(file.entries(("skip",), "combinations, each {axis: label}")):
            at = ("skip", place)
            if not file.mapping(at, needed=True):
                raise file.wrong(at, "a combination without an axis would skip every row")
            self._check_labels(at, alone=True)

    def _check_labels(self, at: Place, *, alone: bool = False) -> None:
        """A mapping of axes to lists of their labels, or to a label alone."""
        self.file.known(at, self.file.mapping(("rows",)), "axis")
        for axis in self.file.mapping(at):
            labels = self.file.mapping(("rows", axis))
            self.file.names((*at, axis), labels, "label", f" on the axis {axis!r}", alone=alone)

    def _check_row_names(self) -> None:
        """No two rows have one name: results, published values and single cells go by it."""
        found: dict[str, Row] = {}
        for row in self._rows():
            if (other := found.setdefault(row.name, row)) is not row:
                axis = next(axis for axis in row.labels if row.labels[axis] != other.labels[axis])
                what = f"two rows have the name {row.name!r}, their labels joined: another label is needed"
                raise self.file.wrong(("rows", axis, row.labels[axis]), what)

    def _check_against(self) -> None:
        """What others are compared with is a row, or a label of an axis."""
        if self.file.get(("against",)) is None:
            return
        try:
            baselines({row.name: row.labels for row in self._rows()}, self.file.text(("against",), needed=True))
        except UserError as error:
            raise self.file.wrong(("against",), f"'against': {error}") from error

    def _check_scales(self) -> None:
        """What a scale changes is there."""
        file = self.file
        file.known(("scales",), SCALES, "scale")
        for scale in file.mapping(("scales",)):
            at: Place = ("scales", scale)
            file.known(at, _CHANGES)
            self._check_labels((*at, "only"))
            if file.get((*at, "drop")) is not None:
                file.names((*at, "drop"), file.mapping(("columns",)), "column")
            file.known((*at, "columns"), file.mapping(("columns",)), "column")
            file.known((*at, "rows"), file.mapping(("rows",)), "axis")
            for axis in file.mapping((*at, "rows")):
                file.known((*at, "rows", axis), file.mapping(("rows", axis)), "label")
            for place in self._all_said(at):
                says(file, place)

    def _check_cells(self, definition: Definition, scale: str) -> None:
        """Every cell that is made says what of it is shown, and an inspection is of texts that it takes."""
        for row, column in itertools.product(definition.rows, definition.columns):
            cell = definition.cell(row, column)
            if "not_run" in cell:
                continue
            if "measure" not in cell:
                raise self.file.wrong(("columns", column), f"the column {column!r} has no 'measure'")
            if wrong := texts_wrong(cell.get("inspection", {})):
                raise self.file.wrong(self._last_said(row, column, scale, ("inspection", "texts")), wrong)

    def _last_said(self, row: Row, column: str, scale: str, keys: Place) -> Place:
        """Where that is said of a cell which overrules what is said of it elsewhere."""
        own: list[Place] = [("cells", row.name, column), ("cells", row.name, WHOLE_ROW)]
        labels: list[Place] = [("rows", axis, label) for axis, label in reversed([*row.labels.items()])]
        for places in ([("columns", column)], labels, [("shared",)]):
            own += [*(("scales", scale, *at) for at in places), *places]
        return next((*at, *keys) for at in own if self.file.get((*at, *keys)) is not None)

    def _digits(self) -> int:
        given = "digits" in self.file.mapping(())
        return self.file.whole_number(("digits",), 0, MOST_DIGITS) if given else _DIGITS

    def _singles(self) -> dict[str, dict[str, Pipeline]]:
        """What single cells say, of rows and columns that are in the file."""
        file = self.file
        file.known(("cells",), [row.name for row in self._rows()], "row")
        for name in file.mapping(("cells",)):
            file.known(("cells", name), [*file.mapping(("columns",)), WHOLE_ROW], "column")
        return {
            name: {column: says(file, ("cells", name, column)) for column in file.mapping(("cells", name))}
            for name in file.mapping(("cells",))
        }

    def _left_out(self, at: Place) -> Iterator[str]:
        """What a scale leaves out: labels of the rows' axes, columns."""
        for axis, kept in self.file.mapping((*at, "only")).items():
            out = [label for label in self.file.mapping(("rows", axis)) if label not in kept]
            yield f"{axis} {', '.join(out)}"
        if dropped := self.file.mapping(at).get("drop"):
            yield f"columns {', '.join(dropped)}"

    def _rows(self, only: Mapping[str, Sequence[str]] | None = None, changes: Place = ()) -> Iterator[Row]:
        """The product of the axes, without what is skipped; ``changes`` is where a scale changes rows."""
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
        """The published values of the columns that are left, for every row of the file."""
        file, everything = self.file, self.file.everything()
        kept = [everything.index(column) for column in (*columns, *averages)]
        found = {}
        file.known(("published",), [row.name for row in self._rows()], "row")
        for name in file.mapping(("published",)):
            at = ("published", name)
            said = file.entries(at, "numbers")
            if len(said) != len(everything):
                raise file.wrong(at, f"{len(everything)} values are needed, one for each column, not {len(said)}")
            values = [None if value is None else file.number((*at, place)) for place, value in enumerate(said)]
            found[name] = [values[place] for place in kept]
            for place, average in enumerate(averages, start=len(columns)):
                if len(averages[average]) < len(file.mapping(("averages",))[average]):
                    found[name][place] = None  # that mean was over more columns
        return found
