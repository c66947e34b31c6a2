"""The figures of the papers, drawn from results of `holdfast reproduce` whose definition has a figure."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.errors import UserError
from holdfast.files import locked, remove_temporary
from holdfast.report.elements import (
    COLOURS,
    MUTED,
    SHAPES,
    Chart,
    LegendKey,
    Line,
    Mark,
    Shape,
    Table,
    TableCell,
    colour,
    number_cell,
)
from holdfast.report.figures import pairs_chart
from holdfast.report.result_sources import ReportSource
from holdfast.runs.run_log import number_of

PUBLISHED = "published"

Values: TypeAlias = dict[str, tuple[float | None, float | None]]
"""Our mean and the published value in one column, by row name."""


def reproduced_charts(source: ReportSource) -> list[Chart]:
    """Return the charts of a result of `reproduce`: none for a table, one for a scatter, one for each panel or plane.

    Values that were not run are left out, and so are charts without values. Published values are drawn hollow.

    Raises:
        UserError: the description of the figure in the result is invalid.
    """
    figure = source.protocol.get("figure")
    if not isinstance(figure, dict):
        return []
    try:
        return _charts(source, figure)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{source.path}: its figure is not one of `holdfast reproduce`: {error!r}") from error


def _charts(source: ReportSource, figure: Mapping[str, Any]) -> list[Chart]:
    kind = figure.get("kind")
    if kind == "lines":
        charts = [_lines(source, figure, panel, number) for number, panel in enumerate(figure["panels"], start=1)]
    elif kind == "scatter":
        charts = [_scatter(source, figure)]
    elif kind == "pairs":
        return _planes(source)
    else:
        return []
    return [chart for chart in charts if chart.marks]


def write_pictures(path: Path, result: Mapping[str, Any]) -> list[Path]:
    """Write the charts of a result as PNG and SVG beside its file: ``NAME.png``, ``NAME-2.png`` for a second panel.

    Raises:
        UserError: matplotlib is missing, or a file cannot be written.
    """
    from dataclasses import replace

    from holdfast.report.plots import FORMATS, write_plots

    charts = reproduced_charts(ReportSource(1, path, dict(result), (), 0))
    named = [replace(chart, id=path.stem + (f"-{n}" if n > 1 else "")) for n, chart in enumerate(charts, start=1)]
    if not named:
        return []
    with locked(path.parent / f".{path.name}.pictures.lock", path):
        remove_temporary(path.parent, *(f"{glob.escape(chart.id)}.{kind}" for chart in named for kind in FORMATS))
        return write_plots(named, path.parent)


def _values(source: ReportSource, column: str) -> Values:
    return {
        str(row["task"]): (number_of(row["metrics"].get("mean")), number_of(row["published"]))
        for row in source.rows
        if row["split"] == column
    }


def _title(source: ReportSource) -> str:
    return str(source.protocol.get("title") or source.protocol.get("table") or "Reproduced figure")


def _note(source: ReportSource, *more: str) -> str:
    message = [f"{source.protocol.get('source', '')}; scale {source.protocol.get('scale', '')}.", *more]
    return " ".join(part for part in message if part)


def _lines(source: ReportSource, figure: Mapping[str, Any], panel: Mapping[str, Any], number: int) -> Chart:
    """Return a chart with a line for each row over the columns of one panel."""
    points: Mapping[str, float] = panel["points"]
    names = list(dict.fromkeys(str(row["task"]) for row in source.rows))
    held = {column: _values(source, column) for column in points}
    lines, marks, rows = [], [], []
    for place, name in enumerate(names):
        shade, shape = colour(place), SHAPES[place % len(SHAPES)]
        own: list[tuple[float, float]] = []
        for column, x in points.items():
            ours, published = held[column].get(name, (None, None))
            if ours is not None:
                own.append((x, ours))
                marks.append(Mark(x, ours, shade, shape, f"{name}, {column}: {ours:.2f}"))
            if published is not None:
                marks.append(
                    Mark(x, published, shade, shape, f"{name}, {column}: published {published:g}", hollow=True)
                )
            rows.append((TableCell(name), TableCell(column), number_cell(ours, 2), number_cell(published, 2)))
        if len(own) > 1:
            lines.append(Line(tuple(sorted(own)), shade, message=name))
    x_axis, y_axis = str(panel.get("x", "")), str(figure.get("y", ""))
    id = f"reproduced-{source.number}-panel-{number}"
    hollow = any(mark.hollow for mark in marks)
    keys = [LegendKey(name, colour(n), SHAPES[n % len(SHAPES)], line=True) for n, name in enumerate(names)]
    return Chart(
        id=id,
        title=_title(source) if len(figure.get("panels", ())) == 1 else f"{_title(source)}: {x_axis}",
        note=_note(source, "Hollow: published." if hollow else ""),
        x_axis=x_axis,
        y_axis=y_axis,
        lines=tuple(lines),
        marks=tuple(marks),
        legend=(*keys, *((LegendKey(PUBLISHED, MUTED, "circle", hollow=True),) if hollow else ())),
        data=Table(f"{id}-data", _title(source), ("row", x_axis, y_axis, PUBLISHED), tuple(rows), labels=2),
    )


def _scatter(source: ReportSource, figure: Mapping[str, Any]) -> Chart:
    """Return a chart with a point for each row, at two columns; points with the same label on ``join`` are joined.

    If points are not joined and have several seeds, whiskers show one standard deviation on each side.
    """
    written: Mapping[str, str] = figure.get("axes") or {}
    x_axis, y_axis, join = str(figure["x"]), str(figure["y"]), figure.get("join")
    xs, ys = _values(source, x_axis), _values(source, y_axis)
    labels = {str(row["task"]): row["labels"] for row in source.rows}
    groups = list(dict.fromkeys(str(own.get(join, "")) for own in labels.values()))
    # If points are joined, colours stand for the labels of the other axes, and shapes for those of the joining axis.
    names = {name: " ".join(str(v) for axis, v in own.items() if axis != join) for name, own in labels.items()}
    whole = list(dict.fromkeys(names.values()))
    x_spread, y_spread = _spreads(source, x_axis), _spreads(source, y_axis)
    marks, whiskers, ends = list[Mark](), list[Line](), dict[str, list[tuple[float, float]]]()
    for name, own in labels.items():
        group = str(own.get(join, ""))
        place = whole.index(names[name])
        shade, shape = colour(place), SHAPES[groups.index(group) % len(SHAPES)] if join else _shape(place)
        for x, y, hollow in ((xs[name][0], ys[name][0], False), (xs[name][1], ys[name][1], True)):
            if x is None or y is None:
                continue
            message = f"{name}{', published' if hollow else ''}: {x_axis} {x:.3f}, {y_axis} {y:.3f}"
            marks.append(Mark(x, y, shade, shape, message, label="" if hollow or join else name, hollow=hollow))
            if hollow:
                continue
            ends.setdefault(group, []).append((x, y))
            if not join:
                whiskers += _whiskers(x, y, x_spread.get(name), y_spread.get(name), shade)
    joined = [Line(tuple(sorted(own)), MUTED) for own in ends.values() if join and len(own) > 1]
    hollow = any(mark.hollow for mark in marks)
    id = f"reproduced-{source.number}-scatter"
    notes = ("Hollow: published." * hollow, "Whiskers: ± 1 standard deviation over the seeds." * bool(whiskers))
    return Chart(
        id=id,
        title=_title(source),
        note=_note(source, *notes),
        x_axis=written.get("x") or x_axis,
        y_axis=written.get("y") or y_axis,
        lines=(*joined, *whiskers),
        marks=tuple(marks),
        legend=(
            *(LegendKey(name, colour(n), "circle" if join else _shape(n)) for n, name in enumerate(whole)),
            *((LegendKey(name, MUTED, SHAPES[n % len(SHAPES)]) for n, name in enumerate(groups)) if join else ()),
            *((LegendKey(PUBLISHED, MUTED, "circle", hollow=True),) if hollow else ()),
        ),
        data=_scatter_data(f"{id}-data", source, {x_axis: xs, y_axis: ys}),
    )


def _scatter_data(id: str, source: ReportSource, axes: Mapping[str, Values]) -> Table:
    columns = ("row", *axes, *(f"{axis}, {PUBLISHED}" for axis in axes))
    rows = [
        (TableCell(name), *(number_cell(held[name][which], 3) for which in (0, 1) for held in axes.values()))
        for name in dict.fromkeys(str(row["task"]) for row in source.rows)
    ]
    return Table(id, _title(source), columns, tuple(rows))


def _spreads(source: ReportSource, column: str) -> dict[str, float]:
    """Return the standard deviation over seeds by row name, for rows with several seeds."""
    found = {str(row["task"]): number_of(row["metrics"].get("std")) for row in source.rows if row["split"] == column}
    return {name: std for name, std in found.items() if std}


def _whiskers(x: float, y: float, x_std: float | None, y_std: float | None, shade: str) -> list[Line]:
    across = [Line(((x - x_std, y), (x + x_std, y)), shade)] if x_std else []
    upright = [Line(((x, y - y_std), (x, y + y_std)), shade)] if y_std else []
    return [*across, *upright]


def _shape(place: int) -> Shape:
    """Return the shape of a point; it changes when the colours start again."""
    return SHAPES[place // COLOURS % len(SHAPES)]


def _planes(source: ReportSource) -> list[Chart]:
    """Return one chart per row, with its texts in a plane."""
    charts: list[Chart] = []
    seen: set[str] = set()
    for row in source.rows:
        name = str(row["task"])
        if "coordinates" in row and name not in seen:
            seen.add(name)
            id = f"reproduced-{source.number}-plane-{len(seen)}"
            charts.append(pairs_chart(row["coordinates"], id=id, model=f"{name}, {_title(source)}", path=source.path))
    return charts
