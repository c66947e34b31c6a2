"""A table's definition as values: its rows, columns and published values, and the pipelines of its cells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.experiments.figures import figure_of_columns

DIGITS = 1
"""Decimals shown, unless a table says otherwise."""

WHOLE_ROW = "*"
"""The key under ``cells``, in place of a column, that stands for all cells of a row."""

_LENGTHS = ("sentences", "max_steps", "epochs")
"""The settings for the length of a training."""

Pipeline = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row: its label on each axis, and its part of the pipeline of its cells."""

    labels: Mapping[str, str]
    pipeline: Pipeline

    @property
    def name(self) -> str:
        """The labels, joined by spaces."""
        return " ".join(self.labels.values())


@dataclass(frozen=True)
class Definition:
    """The definition of a table at a scale.

    Attributes:
        name: such as "adcl/table1".
        title: title of the table.
        source: paper and table.
        claim: what the paper concludes from it.
        rows: its rows.
        columns: for each column, its part of the pipeline of its cells.
        averages: for each average column, the names of the columns it averages.
        published: published values by row name, in the order of the columns and then the averages.
        shared: part of the pipeline that all cells share.
        settings: settings of the stages in place of the scale's; the user's changes override them.
        singles: additions to the pipelines of single cells, by row name and column.
        digits: decimals shown.
        against: default baseline of the comparisons, a row, AXIS=LABEL or a column; see `baselines`.
        note: how the paper is read where it is ambiguous.
        figure: how it is drawn (see `FIGURES`); None for a table.
        left_out: descriptions of what the scale leaves out.
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
    settings: Pipeline = field(default_factory=dict)
    singles: Mapping[str, Mapping[str, Pipeline]] = field(default_factory=dict)
    digits: int = DIGITS
    against: str | None = None
    note: str = ""
    figure: Mapping[str, Any] | None = None
    left_out: tuple[str, ...] = ()

    def cell(self, row: Row, column: str) -> Pipeline:
        """Return the pipeline of a cell."""
        single = self.singles.get(row.name, {})
        return merged(
            self.shared, row.pipeline, self.columns[column], single.get(WHOLE_ROW, {}), single.get(column, {})
        )

    def published_value(self, row: Row, column: str) -> float | None:
        """Return the published value of a cell or an average, or None."""
        values = self.published.get(row.name)
        return None if values is None else values[[*self.columns, *self.averages].index(column)]

    def with_columns(self, names: Collection[str]) -> Definition:
        """Return the table with these columns and averages alone, and with the columns that such averages are over."""
        averages = {average: over for average, over in self.averages.items() if average in names}
        wanted = {*names, *(column for over in averages.values() for column in over)}
        columns = {column: pipeline for column, pipeline in self.columns.items() if column in wanted}
        kept = [place for place, name in enumerate((*self.columns, *self.averages)) if name in (*columns, *averages)]
        return replace(
            self,
            columns=columns,
            averages=averages,
            published={row: [values[place] for place in kept] for row, values in self.published.items()},
            figure=figure_of_columns(self.figure, (*columns, *averages)),
        )


def two_lengths(settings: Collection[str]) -> tuple[str, str] | None:
    """Return two of some settings that both set the length of a training; None if there are none."""
    found = [name for name in _LENGTHS if name in settings]
    return (found[0], found[1]) if len(found) > 1 else None


def merged(*parts: Mapping[str, Any]) -> Pipeline:
    """Merge mappings at every depth; a later value overrides an earlier one.

    The length of a training has several settings: a mapping that sets one of them removes all that were set before.
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
