"""The ``figure`` of a table's file: how the table is drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.errors import did_you_mean
from holdfast.experiments.yaml_table import Place, TableFile, shown

FIGURES = {
    "lines": ("kind", "y", "panels"),
    "scatter": ("kind", "x", "y", "axes", "join"),
    "pairs": ("kind",),
}
"""The kinds of figures and the keys of each.

``lines``: a line per row over ``panels``, each ``{x: name of the axis, points: {column: place on it}}``. ``scatter``: a
point per row; ``x`` and ``y`` are columns, and ``axes: {x: …, y: …}`` are labels of the axes in place of the columns'
names; points with the same label on the axis ``join`` are joined. ``pairs``: clean and adversarial texts as points in a
plane, from cells with ``distances_in``.
"""


def read_figure(file: TableFile, left: Sequence[str], scale: str) -> dict[str, Any] | None:
    """Return the ``figure`` of a table's file; None if it has none.

    ``left`` are the columns and averages that remain at the scale.

    Raises:
        UserError: the figure is not one of `FIGURES`, or uses something that is not in the table (with ``file:line``).
    """
    if file.get(("figure",)) is None:
        return None
    figure = file.mapping(("figure",))
    kind = figure.get("kind")
    if not isinstance(kind, str) or kind not in FIGURES:
        raise file.wrong(("figure", "kind"), f"a figure's kind is one of {', '.join(FIGURES)}, not {shown(kind)}")
    file.check_keys(("figure",), FIGURES[kind])
    if kind == "scatter":
        _check_scatter(file, left, scale)
    if kind != "lines":
        return figure
    file.text(("figure", "y"))
    drawn = range(len(file.entries(("figure", "panels"), "panels")))
    panels = [_panel(file, ("figure", "panels", place)) for place in drawn]
    return figure_of_columns({**figure, "panels": panels}, left)


def figure_of_columns(figure: Mapping[str, Any] | None, columns: Collection[str]) -> dict[str, Any] | None:
    """Return what is left of a figure with these columns; None if that is nothing, or if there is no figure."""
    if figure is None or (figure["kind"] == "scatter" and not {figure["x"], figure["y"]} <= {*columns}):
        return None
    if figure["kind"] != "lines":
        return {**figure}
    panels = [_with_points(panel, columns) for panel in figure["panels"]]
    left = [panel for panel in panels if panel["points"]]
    return {**figure, "panels": left} if left else None


def _with_points(panel: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    return {**panel, "points": {column: x for column, x in panel["points"].items() if column in columns}}


def _check_scatter(file: TableFile, left: Sequence[str], scale: str) -> None:
    """Check that both columns exist, at this scale too, and that ``join`` is an axis of the rows."""
    file.check_keys(("figure", "axes"), ("x", "y"))
    column_names, axes = file.column_names(), file.mapping(("rows",))
    for key in ("x", "y"):
        file.text(("figure", "axes", key))
        at = ("figure", key)
        name = file.text(at, needed=True)
        if name not in column_names:
            raise file.wrong(at, f"there is no column {name!r}{did_you_mean(name, column_names)}")
        if name not in left:
            raise file.wrong(at, f"the figure needs the column {name!r}, which is dropped at the scale {scale}")
    join = file.text(("figure", "join"))
    if join and join not in axes:
        raise file.wrong(("figure", "join"), f"there is no axis {join!r}{did_you_mean(join, axes)}")


def _panel(file: TableFile, at: Place) -> dict[str, Any]:
    """Return one panel, with a number for each of its points."""
    panel, points = file.mapping(at, needed=True), (*at, "points")
    file.check_keys(at, ("x", "points"))
    file.text((*at, "x"))
    if not file.mapping(points):
        raise file.wrong(at, "a panel needs 'points', {column: place on the axis}")
    file.check_keys(points, file.column_names(), "column")
    return {**panel, "points": {column: file.number((*points, column)) for column in file.mapping(points)}}
