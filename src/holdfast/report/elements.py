"""Parts of a report: tables, figures and notes, as plain values that the page, files and tests read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from holdfast.runs.soundness import Flag

COLOURS = 8
"""Number of colours for models and curves: classes ``c0`` to ``c7`` of the page's style, reused if there are more."""
SHADES = 5
"""Number of shades from low to high: classes ``q0`` to ``q4``."""
MUTED = "muted"

Shape = Literal["circle", "square", "triangle", "diamond", "cross", "down", ""]
SHAPES: tuple[Shape, ...] = ("circle", "square", "triangle", "diamond", "cross", "down")


def colour(number: int) -> str:
    """Return the colour of the model or curve with this number."""
    return f"c{number % COLOURS}"


@dataclass(frozen=True)
class TableCell:
    """A cell of a table.

    Attributes:
        text: its text.
        detail: an interval or a spread, in smaller type after the text.
        title: a hint, shown on hovering; the page says it elsewhere too.
        best: whether it is the best of its column.
        verdict: holds, bends, breaks, too few or absent, if the cell is a verdict.
    """

    text: str
    detail: str = ""
    title: str = ""
    best: bool = False
    verdict: str = ""

    @property
    def plain(self) -> str:
        """Text and detail, as files hold them."""
        return f"{self.text} {self.detail}".strip()


def number_cell(value: float | None, digits: int) -> TableCell:
    """Return a cell with a number, or a dash for None."""
    return TableCell("–" if value is None else f"{value:.{digits}f}")


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        id: its anchor, and the name of its files.
        title: its caption.
        columns: headers, including those of the row labels.
        rows: each with one cell per column.
        labels: number of columns, from the left, that name the row.
        words: indices of further columns that hold words and are aligned to the left.
        note: how to read it.
        stacked: whether details are below the texts of their cells, to make room for many columns.
    """

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    labels: int = 1
    words: tuple[int, ...] = ()
    note: str = ""
    stacked: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar: ``value`` with its interval, if there is one."""

    label: str
    value: float
    low: float | None
    high: float | None
    colour: str
    message: str


@dataclass(frozen=True)
class Bars:
    """Horizontal bars in named groups.

    Attributes:
        id: its anchor, and the name of its files.
        title: its heading.
        note: how to read it.
        axis: label of the values, with their unit.
        groups: the name of each, and its bars.
        data: the same numbers as a table.
        top: the end of the axis; None: as the values need.
    """

    id: str
    title: str
    note: str
    axis: str
    groups: tuple[tuple[str, tuple[Bar, ...]], ...]
    data: Table
    top: float | None = None


@dataclass(frozen=True)
class Line:
    """Joined points."""

    points: tuple[tuple[float, float], ...]
    colour: str
    dotted: bool = False
    message: str = ""


@dataclass(frozen=True)
class Mark:
    """A point: ``message`` is shown on hovering, ``label`` beside it if there is room."""

    x: float
    y: float
    colour: str
    shape: Shape
    message: str
    label: str = ""
    hollow: bool = False


@dataclass(frozen=True)
class LegendKey:
    """An entry of the legend: with a shape, a stroke, or both."""

    name: str
    colour: str
    shape: Shape = ""
    line: bool = False
    hollow: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines and points over two axes.

    Attributes:
        id: its anchor, and the name of its files.
        title: its heading.
        note: how to read it.
        x_axis: label of x, with its unit.
        y_axis: label of y, with its unit.
        lines: the lines, drawn first.
        marks: the points, drawn on top of the lines.
        legend: meaning of the colours and shapes.
        data: the same numbers as a table.
        logarithmic: whether the y axis is logarithmic; all y are then above 0.
        from_zero: whether both axes start at 0.
        bare: whether to draw a square from 0 to 1 without axes: a projection whose distances mean little.
        half: whether it is narrow enough for two side by side.
    """

    id: str
    title: str
    note: str
    x_axis: str
    y_axis: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...]
    legend: tuple[LegendKey, ...]
    data: Table
    logarithmic: bool = False
    from_zero: bool = False
    bare: bool = False
    half: bool = False


Figure = Bars | Chart


@dataclass(frozen=True)
class Card:
    """A model's headline numbers: name and value of each."""

    title: str
    full: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Block:
    """A part of a section, with its own heading if it has a title."""

    title: str = ""
    note: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    id: str
    title: str
    note: str
    blocks: tuple[Block, ...] = field(default_factory=tuple)

    @property
    def tables(self) -> list[Table]:
        """All of its tables."""
        return [table for block in self.blocks for table in block.tables]

    @property
    def figures(self) -> list[Figure]:
        """All of its figures."""
        return [figure for block in self.blocks for figure in block.figures]
