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
from holdfast.values import read_yaml

STAGES = ("encoder", "classifier", "attack", "evaluation", "transfer_to", "distances_in", "inspection")
"""What a cell may say: which encoder, which classifier on it, which attack; or which evaluation of the encoder."""

SCALES = ("smoke", "small", "paper")
_KEYS = ("title", "source", "claim", "note", "digits", "shared", "rows", "skip", "columns", "cells", "averages",
         "published", "figure", "scales")  # fmt: skip
_NEEDED = ("title", "source", "rows", "columns")
_CELL_KEYS = (*STAGES, "measure", "digits", "not_run")
_CHANGES = ("shared", "only", "drop", "rows", "columns")
_DIGITS = 1

WHOLE_ROW = "*"
"""In place of a column, under ``cells``: all cells of that row, which its labels together name."""

FIGURES = {
    "lines": ("kind", "y", "panels"),
    "scatter": ("kind", "x", "y", "join"),
    "pairs": ("kind",),
}
"""The kinds of figures and what each is told.

``lines``: a line per row over ``panels``, each ``{x: name of the axis, points: {column: place on it}}``. ``scatter``: a
point per row, ``x`` and ``y`` are columns; points with the same label on the axis ``join`` are joined. ``pairs``: clean
and adversarial texts as points of a plane, from cells with ``distances_in``.
"""

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
    """Mappings laid over one another, at every depth; a later value overrules an earlier one."""
    whole: Pipeline = {}
    for part in parts:
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
        path = Path(name).expanduser()
    else:
        raise UserError(
            f"unknown table {name!r}{did_you_mean(name, known)}: `holdfast reproduce list` shows all; "
            "one of your own is a FILE.yaml"
        )
    return _Reader(path).definition(name if name in known else path.stem, scale)


class _Reader:
    """One YAML file, with the lines of its keys for what is wrong in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node, self.whole = read_yaml(path, "table")

    def definition(self, name: str, scale: str) -> Definition:
        """The table at a scale."""
        whole = self._mapping(())
        self._known((), _KEYS)
        for key in _NEEDED:
            if key not in whole:
                raise UserError(f"{self.path}: a table needs {key!r}")
        for key in self._mapping(("scales",)):
            if key not in SCALES:
                raise self._wrong(("scales", key), f"unknown scale {key!r}{did_you_mean(key, SCALES)}")
        at = ("scales", scale)
        changes = self._mapping(at)
        self._known(at, _CHANGES)
        dropped = changes.get("drop", ())
        columns = {
            column: merged(self._says(("columns", column)), self._says((*at, "columns", column)))
            for column in self._mapping(("columns",))
            if column not in dropped
        }
        rows = tuple(self._rows(changes.get("only", {}), (*at, "rows")))
        if not rows or not columns:
            raise UserError(f"{self.path}: no rows or no columns are left at the scale {scale}")
        averages = {
            name: [column for column in over if column in columns]
            for name, over in self._mapping(("averages",)).items()
        }
        averages = {name: over for name, over in averages.items() if over}
        definition = Definition(
            name=name,
            title=str(whole["title"]),
            source=str(whole["source"]),
            claim=str(whole.get("claim", "")),
            rows=rows,
            columns=columns,
            averages=averages,
            published=self._published(columns, averages),
            shared=merged(self._says(("shared",)), self._says((*at, "shared"))),
            singles=self._singles(),
            digits=self._digits(("digits",), whole),
            note=str(whole.get("note", "")),
            figure=self._figure(columns),
            left_out=tuple(self._left_out(changes)),
        )
        self._check_measures(definition)
        return definition

    def _check_measures(self, definition: Definition) -> None:
        """Every cell that is made says what of it is shown."""
        for row, column in itertools.product(definition.rows, definition.columns):
            cell = definition.cell(row, column)
            if "measure" not in cell and "not_run" not in cell:
                raise self._wrong(("columns", column), f"the column {column!r} has no 'measure'")
            self._digits(("columns", column, "digits"), cell)

    def _digits(self, at: tuple[str, ...], says: Mapping[str, Any]) -> int:
        digits = says.get("digits", _DIGITS)
        if type(digits) is not int or not 0 <= digits <= 9:
            raise self._wrong(at, f"'digits' takes a whole number from 0 to 9, not {digits!r}")
        return digits

    def _singles(self) -> dict[str, dict[str, Pipeline]]:
        """What single cells say, of rows and columns that are in the file."""
        names, columns = [row.name for row in self._rows({})], self._mapping(("columns",))
        for name in self._mapping(("cells",)):
            if name not in names:
                raise self._wrong(("cells", name), f"there is no row {name!r}{did_you_mean(name, names)}")
            self._known(("cells", name), [*columns, WHOLE_ROW])
        return {
            name: {column: self._says(("cells", name, column)) for column in own}
            for name, own in self._mapping(("cells",)).items()
        }

    def _figure(self, columns: Mapping[str, Pipeline]) -> dict[str, Any] | None:
        """How the table is drawn, with the columns that are left."""
        figure = self._mapping(("figure",))
        if not figure:
            return None
        kind = figure.get("kind")
        if kind not in FIGURES:
            raise self._wrong(("figure", "kind"), f"a figure's kind is one of {', '.join(FIGURES)}, not {kind!r}")
        self._known(("figure",), FIGURES[kind])
        everything = [*self._mapping(("columns",)), *self._mapping(("averages",))]
        named = [figure.get("x"), figure.get("y")] if kind == "scatter" else []
        panels = [dict(panel) for panel in figure.get("panels", ())]
        for panel in panels:
            named += panel["points"]
            panel["points"] = {column: float(x) for column, x in panel["points"].items() if column in columns}
        for column in named:
            if column not in everything:
                raise self._wrong(("figure",), f"there is no column {column!r}{did_you_mean(str(column), everything)}")
        return {**figure, **({"panels": [panel for panel in panels if panel["points"]]} if panels else {})}

    def _left_out(self, changes: Mapping[str, Any]) -> Iterator[str]:
        """What a scale leaves out: labels of the rows' axes, columns."""
        for axis, kept in changes.get("only", {}).items():
            out = [label for label in self._mapping(("rows", axis)) if label not in kept]
            yield f"{axis} {', '.join(out)}"
        if dropped := changes.get("drop", ()):
            yield f"columns {', '.join(dropped)}"

    def _rows(self, only: Mapping[str, Sequence[str]], changes: tuple[str, ...] = ()) -> Iterator[Row]:
        """The product of the axes, without what is skipped; ``changes`` is where a scale changes rows."""
        axes = self._mapping(("rows",))
        for axis, labels in only.items():
            for label in labels:
                if axis not in axes or label not in axes[axis]:
                    raise self._wrong(("scales",), f"there is no {label!r} on the axis {axis!r} of the rows")
        skipped = self.whole.get("skip") or []
        choices = [[(axis, label) for label in self._mapping(("rows", axis))] for axis in axes]
        for chosen in map(dict, itertools.product(*choices)):
            if any(chosen[axis] not in wanted for axis, wanted in only.items()):
                continue
            if any(all(_among(chosen.get(axis), out[axis]) for axis in out) for out in skipped):
                continue
            says = [
                self._says((*at, axis, label)) for at in (("rows",), changes) if at for axis, label in chosen.items()
            ]
            yield Row(chosen, merged(*says))

    def _published(
        self, columns: Mapping[str, Pipeline], averages: Mapping[str, Sequence[str]]
    ) -> dict[str, list[float | None]]:
        """The published values of the columns that are left, for every row of the file."""
        everything = [*self._mapping(("columns",)), *self._mapping(("averages",))]
        kept = [everything.index(column) for column in (*columns, *averages)]
        found = {}
        names = {row.name for row in self._rows({})}
        for name, values in self._mapping(("published",)).items():
            if name not in names:
                raise self._wrong(("published", name), f"there is no row {name!r}{did_you_mean(name, names)}")
            if not isinstance(values, list) or len(values) != len(everything):
                raise self._wrong(("published", name), f"{len(everything)} values are needed, one for each column")
            found[name] = [None if values[i] is None else float(values[i]) for i in kept]
            for place, average in enumerate(averages, start=len(columns)):
                if len(averages[average]) < len(self.whole["averages"][average]):
                    found[name][place] = None  # that mean was over more columns
        return found

    def _says(self, at: tuple[Any, ...]) -> Pipeline:
        """What a row, a column or ``shared`` says of cells."""
        says = self._mapping(at)
        self._known(at, _CELL_KEYS)
        return says

    def _mapping(self, at: tuple[Any, ...]) -> dict[str, Any]:
        value: Any = self.whole
        for key in at:
            value = value.get(key)
            if value is None:
                return {}
        if not isinstance(value, dict):
            raise self._wrong(at, "a mapping of 'key: value' is needed here")
        for key in value:
            if not isinstance(key, str):  # YAML reads no, off and 3 as something else than text
                raise self._wrong(at, f"the key {key!r} is not text: write it in quotes")
        return value

    def _known(self, at: tuple[Any, ...], known: Sequence[str]) -> None:
        for key in self._mapping(at):
            if key not in known:
                raise self._wrong((*at, key), f"unknown key {key!r}{did_you_mean(key, known)}")

    def _wrong(self, at: tuple[Any, ...], what: str) -> UserError:
        node, line = self.node, 1
        for key in at:
            for name, value in getattr(node, "value", ()):
                if str(name.value) == str(key):
                    node, line = value, name.start_mark.line + 1
        return UserError(f"{self.path}:{line}: {what}")
