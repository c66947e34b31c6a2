"""Placement of the labels of a figure's points: beside the points, where they cover nothing."""

from __future__ import annotations

from collections.abc import Sequence

Box = tuple[float, float, float, float]
"""Left, top, right and bottom; y grows downwards."""

_HALF_MARK = 5.0


def free_places(
    wanted: Sequence[tuple[float, float, float]],
    points: Sequence[tuple[float, float]],
    box: Box,
    height: float,
    strokes: Sequence[tuple[tuple[float, float], ...]] = (),
) -> list[tuple[float, float] | None]:
    """Return each label's left end and baseline: right, left, above, below or diagonal of its point; None without room.

    Args:
        wanted: x and y of each label's point, and the label's width.
        points: all points; labels may not cover them.
        box: the bounds of all labels.
        height: of a letter above the baseline; three tenths of it are kept free below.
        strokes: lines. Labels may not cover horizontal or vertical ones, such as whiskers; they may cover the others.
    """
    half = _HALF_MARK
    taken: list[Box] = [(x - half, y - half, x + half, y + half) for x, y in points]
    taken += [_around(stroke) for stroke in strokes if any(len(set(ends)) == 1 for ends in zip(*stroke, strict=True))]
    places: list[tuple[float, float] | None] = []
    for x, y, width in wanted:
        right, left, centre = x + 9.0, x - 9.0 - width, x - width / 2
        above, level, below = y - 6.0 - 0.5 * height, y + 0.4 * height, y + 10.0 + height
        straight = ((right, level), (left, level), (centre, above), (centre, below))
        aslant = ((right, above), (left, above), (right, below), (left, below))
        place = None
        for start, base in (*straight, *aslant):
            area = (start, base - height, start + width, base + 0.3 * height)
            if _within(area, box) and not any(_overlap(area, other) for other in taken):
                taken.append(area)
                place = start, base
                break
        places.append(place)
    return places


def _around(stroke: tuple[tuple[float, float], ...]) -> Box:
    xs, ys = zip(*stroke, strict=True)
    return min(xs) - 1.0, min(ys) - 1.0, max(xs) + 1.0, max(ys) + 1.0


def _within(a: Box, b: Box) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
