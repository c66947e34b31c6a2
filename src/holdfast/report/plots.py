"""The page's figures as image files for papers, drawn by matplotlib."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError
from holdfast.files import atomic_path, check_file_place, check_folder_place
from holdfast.report.elements import Bars, Chart, Figure, Mark
from holdfast.report.labels import free_places
from holdfast.report.svg import scales_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Sheet

FORMATS = ("png", "svg")

# The page's colours on white paper.
_COLOURS = {
    **{f"c{n}": shade for n, shade in enumerate(("#1f5fa8", "#c2410c", "#0f766e", "#8b34a5"))},
    **{f"c{n}": shade for n, shade in enumerate(("#846000", "#be185d", "#4a760f", "#475569"), start=4)},
    **{f"q{n}": shade for n, shade in enumerate(("#6b91c2", "#507cb2", "#37659e", "#1f4d86", "#0b3062"))},
    "muted": "#767d86",
}
_LABEL_SIZE = 8.0
_SHAPES = {"circle": "o", "square": "s", "triangle": "^", "down": "v", "diamond": "D", "cross": "P", "": "o"}


def check_plots(folder: Path) -> None:
    """Refuse a folder that pictures cannot be written to, before any work is done.

    Raises:
        UserError: the folder is a file or may not be written to, or matplotlib is not installed.
    """
    check_folder_place("--plots", folder)
    _check_matplotlib("--plots")


def check_plot(path: Path) -> None:
    """Refuse a file that a picture cannot be written to, before any work is done.

    Raises:
        UserError: the name ends in neither ``.png`` nor ``.svg``, no file can be written there, or matplotlib is not
            installed.
    """
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise UserError(f"--plot {path}: a picture's name ends in .png or .svg")
    check_file_place("--plot", path)
    _check_matplotlib("--plot")


def _check_matplotlib(option: str) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(f"{option} needs matplotlib: pip install 'holdfast[report]'")


def write_plots(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write each figure as ``DIR/ID.png`` and ``DIR/ID.svg``; equal figures give equal files.

    Raises:
        UserError: as `check_plots`, or a file cannot be written.
    """
    check_plots(folder)
    written = []
    for figure in figures:
        paths = [folder / f"{figure.id}.{kind}" for kind in FORMATS]
        _write(figure, paths)
        written += paths
    return written


def write_plot(figure: Figure, path: Path) -> None:
    """Write a figure as ``.png`` or ``.svg``; equal figures give equal files.

    Raises:
        UserError: as `check_plot`, or the file cannot be written.
    """
    check_plot(path)
    _write(figure, [path])


def _write(figure: Figure, paths: Sequence[Path]) -> None:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    # Without pyplot, which keeps figures and needs a display. Text stays text in an SVG; its ids are fixed.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "holdfast", "font.size": 9}):
        sheet = Sheet(figsize=_size(figure), layout="constrained", facecolor="white")
        FigureCanvasAgg(sheet)
        axes = sheet.add_subplot()
        if isinstance(figure, Bars):
            _bars(axes, figure)
        else:
            _chart(axes, figure)
        axes.set_title(_plain(figure.title), fontsize=10, loc="left", wrap=True)
        if isinstance(figure, Chart):
            _names(sheet, axes, figure)
        for path in paths:
            kind = path.suffix.lower().removeprefix(".")
            metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
            with atomic_path(path) as temporary:
                sheet.savefig(temporary, format=kind, dpi=200, metadata=metadata)


def _size(figure: Figure) -> tuple[float, float]:
    if isinstance(figure, Bars):
        rows = sum(1 + len(own) for _, own in figure.groups)
        return 5.6, 1.1 + 0.2 * rows
    return (5.6, 6.2) if figure.bare else (4.2, 3.0) if figure.half else (5.6, 3.8)


def _plain(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")


def _bars(axes: Axes, figure: Bars) -> None:
    place, ticks, names = 0.0, [], []
    for group, own in figure.groups:
        axes.annotate(
            _plain(group), (0.0, place), xycoords=("axes fraction", "data"), xytext=(-4, 0), textcoords="offset points",
            ha="right", va="center", fontweight="bold",
        )  # fmt: skip
        for bar in own:
            place += 1.0
            ticks.append(place)
            names.append(_plain(bar.label))
            axes.barh(place, bar.value, height=0.74, color=_COLOURS[bar.colour])
            if bar.low is not None and bar.high is not None:
                around = [[max(0.0, bar.value - bar.low)], [max(0.0, bar.high - bar.value)]]
                axes.errorbar(bar.value, place, xerr=around, color="black", linewidth=0.8, capsize=2)
        place += 1.4
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(place - 0.4, -0.8)
    lowest = min((end for _, own in figure.groups for bar in own for end in (bar.value, bar.low or 0.0)), default=0.0)
    axes.set_xlim(None if lowest < 0 else 0.0, figure.top)
    axes.set_xlabel(figure.axis)
    axes.spines[["top", "right"]].set_visible(False)


def _chart(axes: Axes, figure: Chart) -> None:
    for line in figure.lines:
        style = ":" if line.dotted else "-"
        width = 0.6 if figure.bare else 1.0
        axes.plot(
            *zip(*line.points, strict=True), color=_COLOURS[line.colour], linestyle=style, linewidth=width, zorder=1
        )
    many = len(figure.marks) > 120
    for mark in figure.marks:
        edge = _COLOURS[mark.colour]
        axes.scatter(
            mark.x, mark.y, s=9 if many else 22, marker=_SHAPES[mark.shape], edgecolor=edge, linewidth=0.8, zorder=2,
            facecolor="white" if mark.hollow else edge,
        )  # fmt: skip
    _frame(axes, figure)


def _names(sheet: Sheet, axes: Axes, figure: Chart) -> None:
    """Draw names beside their points, and a legend if it has more entries or a name has no room."""
    if not {key.name for key in figure.legend} <= _labels(sheet, axes, figure):
        _legend(sheet, figure)
        for label in list(axes.texts):
            label.remove()
        _labels(sheet, axes, figure)  # again: the legend has taken room


def _labels(sheet: Sheet, axes: Axes, figure: Chart) -> set[str]:
    """Draw the names of points where they cover nothing, and return those that found a place."""
    named = [mark for mark in figure.marks if mark.label]
    if not named:
        return set()
    written = [
        axes.annotate(
            _plain(mark.label), (mark.x, mark.y), xytext=(0, 0), textcoords="offset points", fontsize=_LABEL_SIZE
        )
        for mark in named
    ]
    for label in written:
        label.set_in_layout(False)
    sheet.draw_without_rendering()  # computes the layout and the widths of the labels
    points = 72.0 / sheet.dpi  # points per pixel

    def at(place: tuple[float, float]) -> tuple[float, float]:
        x, y = axes.transData.transform(place)
        return x * points, -y * points

    def of(mark: Mark) -> tuple[float, float]:
        return at((mark.x, mark.y))

    frame = axes.get_window_extent()
    box = (frame.x0 * points, -frame.y1 * points, frame.x1 * points, -frame.y0 * points)
    wanted = [(*of(mark), label.get_window_extent().width * points) for mark, label in zip(named, written, strict=True)]
    strokes = [tuple(map(at, line.points)) for line in figure.lines]
    places = free_places(wanted, [of(mark) for mark in figure.marks], box, _LABEL_SIZE, strokes)
    for label, (x, y, _), place in zip(written, wanted, places, strict=True):
        if place is None:
            label.remove()
        else:
            label.set_position((place[0] - x, y - place[1]))
    return {mark.label for mark, place in zip(named, places, strict=True) if place}


def _frame(axes: Axes, figure: Chart) -> None:
    if figure.logarithmic:
        axes.set_yscale("log")
    x_scale, y_scale = scales_of(figure)
    axes.set(xlim=(x_scale.low, x_scale.high), ylim=(y_scale.low, y_scale.high))
    axes.set(xlabel=_plain(figure.x_axis), ylabel=_plain(figure.y_axis))
    if figure.bare:
        axes.set(xticks=[], yticks=[], aspect="equal")
        return
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(sheet: Sheet, figure: Chart) -> None:
    from matplotlib.lines import Line2D

    signs = [
        Line2D(
            [], [], color=_COLOURS[key.colour], linestyle="-" if key.line else "", label=_plain(key.name), markersize=5,
            marker=_SHAPES[key.shape] if key.shape else "", markerfacecolor="white" if key.hollow else None,
        )
        for key in figure.legend
    ]  # fmt: skip
    if signs:
        columns = 2 if len(signs) > 2 else len(signs)
        sheet.legend(handles=signs, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
