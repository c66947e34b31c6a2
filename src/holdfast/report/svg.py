"""Figures as inline SVG. Colours are classes that the page's style defines; every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup, escape

from holdfast.report.axes import AxisScale, around, decimals_of, linear, logarithmic, tick_labels
from holdfast.report.elements import Bar, Bars, Chart, Figure, LegendKey, Mark, Shape
from holdfast.report.labels import Box, free_places

_WIDE, _HALF = 600.0, 440.0
_LETTER = 6.7
"""Average width of a letter in a label, in units of the drawing; decides what fits."""
_ROW, _GROUP = 22.0, 30.0
_NAMES = 180.0


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """Make an element. Contents and values are escaped unless they are markup; ``_`` in a name becomes ``-``."""
    own = Markup("").join(
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _value(value))
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(escape(part) for part in content)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), own, inside)


def _value(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def draw(figure: Figure) -> Markup:
    """Draw a figure as an ``svg`` element named by its title; its table follows on the page."""
    return _bars(figure) if isinstance(figure, Bars) else _chart(figure)


def _frame(figure: Figure, width: float, height: float, content: Iterable[Markup]) -> Markup:
    name, half = f"{figure.id}-name", isinstance(figure, Chart) and figure.half
    return tag(
        "svg",
        tag("title", f"{figure.title}. Its numbers stand in the table below it.", id=name),
        *content,
        class_="chart half" if half else "chart",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=name,
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", of: str = "", **more: object) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=of or None, **more)


# --- bars --------------------------------------------------------------------------------------------------------


def _bars(figure: Bars) -> Markup:
    bars = [bar for _, own in figure.groups for bar in own]
    ends = (end for b in bars for end in (b.value, b.high or 0.0, b.low or 0.0))
    scale = linear(ends, zero=True, top=figure.top)
    left, right, top = _NAMES, _WIDE - 62.0, 8.0
    height = top + sum(_GROUP + _ROW * len(own) for _, own in figure.groups) + 44.0

    def at(value: float) -> float:
        return left + scale.share(value) * (right - left)

    bottom = height - 44.0
    parts = [tag("line", x1=at(t), x2=at(t), y1=top, y2=bottom, class_="grid") for t in scale.ticks]
    parts += [_text(at(t), bottom + 16.0, name, anchor="middle", of="tick") for t, name in tick_labels(scale)]
    parts.append(_text((left + right) / 2, height - 6.0, figure.axis, anchor="middle", of="axis"))
    y = top
    for name, own in figure.groups:
        parts.append(_text(0.0, y + 19.0, _fitting(name, _WIDE / 2), of="group"))
        y += _GROUP
        for bar in own:
            parts += _bar(bar, y, left, at)
            y += _ROW
    return _frame(figure, _WIDE, height, parts)


def _bar(bar: Bar, y: float, left: float, place: Callable[[float], float]) -> list[Markup]:
    start, end, middle = place(0.0), place(bar.value), y + _ROW / 2
    hover = tag("title", f"{bar.label}: {bar.message}")
    parts = [
        tag("text", hover, _fitting(bar.label, _NAMES - 14.0), x=left - 8.0, y=middle + 4.5, text_anchor="end"),
        tag(
            "rect",
            hover,
            x=min(start, end),
            y=y + 3.0,
            width=abs(end - start),
            height=_ROW - 6.0,
            class_=f"fill {bar.colour}",
        ),
    ]
    if bar.low is not None and bar.high is not None:
        low, high = place(bar.low), place(bar.high)
        d = f"M{low:.1f} {middle - 4:.1f}v8M{low:.1f} {middle:.1f}H{high:.1f}M{high:.1f} {middle - 4:.1f}v8"
        parts.append(tag("path", d=d, class_="whisker"))
        end = max(end, high)
    parts.append(_text(max(start, end) + 6.0, middle + 4.5, f"{bar.value:.{decimals_of(bar.value)}f}", of="value"))
    return parts


def _fitting(text: str, width: float) -> str:
    most = int(width / _LETTER)
    if len(text) <= most:
        return text
    tail = max(1, most // 2 - 1)  # names differ at their ends as often as at their starts
    return f"{text[: max(1, most - 1 - tail)]}…{text[-tail:]}"


# --- charts ------------------------------------------------------------------------------------------------------


def _chart(figure: Chart) -> Markup:
    width, height = (600.0, 600.0) if figure.bare else (_HALF, 270.0) if figure.half else (_WIDE, 350.0)
    box = (8.0, 8.0, width - 8.0, height - 8.0) if figure.bare else (66.0, 12.0, width - 18.0, height - 50.0)
    x_scale, y_scale = scales_of(figure)

    def at(x: float, y: float) -> tuple[float, float]:
        return box[0] + x_scale.share(x) * (box[2] - box[0]), box[3] - y_scale.share(y) * (box[3] - box[1])

    parts = [] if figure.bare else _axes(figure, box, x_scale, y_scale)
    strokes = [tuple(at(*point) for point in line.points) for line in figure.lines]
    for line, stroke in zip(figure.lines, strokes, strict=True):
        points = " ".join("{:.1f},{:.1f}".format(*point) for point in stroke)
        style = f"stroke {line.colour}{' dotted' if line.dotted else ''}"
        parts.append(tag("polyline", points=points, class_=style))
    placed = [(*at(mark.x, mark.y), mark) for mark in figure.marks]
    size = 3.4 if len(placed) > 120 else 3.6 if figure.half and not figure.bare else 5.0
    parts += [_mark(x, y, mark, size) for x, y, mark in placed]
    named = [(x, y, mark.label) for x, y, mark in placed if mark.label]
    parts += _labels(named, [p[:2] for p in placed], box, strokes)
    return _frame(figure, width, height, parts)


def scales_of(figure: Chart) -> tuple[AxisScale, AxisScale]:
    """Return the axes of x and y."""
    if figure.bare:
        return AxisScale(-0.03, 1.03, ()), AxisScale(-0.03, 1.03, ())
    points = [(mark.x, mark.y) for mark in figure.marks] + [point for line in figure.lines for point in line.points]
    ys = [y for _, y in points]
    xs = [x for x, _ in points]
    return around(xs, zero=figure.from_zero), logarithmic(ys) if figure.logarithmic else around(
        ys, zero=figure.from_zero
    )


def _axes(figure: Chart, box: Box, x_scale: AxisScale, y_scale: AxisScale) -> list[Markup]:
    left, top, right, bottom = box
    parts = []
    for tick, name in tick_labels(y_scale):
        y = bottom - y_scale.share(tick) * (bottom - top)
        parts += [
            tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid"),
            _text(left - 8.0, y + 4.0, name, anchor="end", of="tick"),
        ]
    for tick, name in tick_labels(x_scale):
        x = left + x_scale.share(tick) * (right - left)
        parts += [
            tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 5.0, class_="grid"),
            _text(x, bottom + 18.0, name, anchor="middle", of="tick"),
        ]
    middle = (top + bottom) / 2
    return [
        *parts,
        tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="base"),
        _text((left + right) / 2, bottom + 40.0, figure.x_axis, anchor="middle", of="axis"),
        _text(14.0, middle, figure.y_axis, anchor="middle", of="axis", transform=f"rotate(-90 14 {middle:g})"),
    ]


def _mark(x: float, y: float, mark: Mark, size: float) -> Markup:
    style = f"{'hollow' if mark.hollow else 'solid'} {mark.colour}"
    return _shape(mark.shape, x, y, size, style, tag("title", mark.message))


def _shape(shape: Shape, x: float, y: float, r: float, style: str, *content: Markup) -> Markup:
    if shape in ("circle", ""):
        return tag("circle", *content, cx=x, cy=y, r=r, class_=style)
    corners = {
        "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        "triangle": ((0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
        "down": ((0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)),
        "diamond": ((0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)),
        "cross": (
            *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
            *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
        ),
    }[shape]
    points = " ".join(f"{x + r * dx:.1f},{y + r * dy:.1f}" for dx, dy in corners)
    return tag("polygon", *content, points=points, class_=style)


def _labels(
    wanted: Sequence[tuple[float, float, str]],
    points: Sequence[tuple[float, float]],
    box: Box,
    strokes: Sequence[tuple[tuple[float, float], ...]],
) -> list[Markup]:
    """Draw labels beside their points where they cover nothing; the others are only shown on hovering."""
    shown = [(x, y, _fitting(text, 200.0)) for x, y, text in wanted]
    places = free_places([(x, y, _LETTER * len(text)) for x, y, text in shown], points, box, 10.0, strokes)
    return [_text(*place, text, of="label") for (_, _, text), place in zip(shown, places, strict=True) if place]


def swatch(key: LegendKey) -> Markup:
    """Draw the symbol of a legend's entry."""
    parts = []
    if key.line:
        parts.append(tag("line", x1=1.0, x2=25.0, y1=8.0, y2=8.0, class_=f"stroke {key.colour}"))
    if key.shape:
        style = f"{'hollow' if key.hollow else 'solid'} {key.colour}"
        parts.append(_shape(key.shape, 13.0, 8.0, 5.0, style))
    return tag("svg", *parts, class_="swatch", viewBox="0 0 26 16", aria_hidden="true")
