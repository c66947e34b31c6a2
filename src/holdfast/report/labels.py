"""Where the names of a figure's points go: beside them, where they cover nothing."""

from __future__ import annotations

from collections.abc import Sequence

Box = tuple[float, float, float, float]
"""Left, top, right and bottom; y grows downwards."""

_HALF_MARK = 5.0


def free_places(
    wanted: Sequence[tuple[float, float, float]], points: Sequence[tuple[float, float]], box: Box, height: float
) -> list[tuple[float, float] | None]:
    """Left end and baseline of each label: right of its point, left of it, above or below; None where there is no room.

    Args:
        wanted: x and y of each label's point, and the label's width.
        points: every point, which no label may cover.
        box: what all labels are within.
        height: a letter's, above the baseline; three tenths of it are kept free below.
    """
    half = _HALF_MARK
    taken: list[Box] = [(x - half, y - half, x + half, y + half) for x, y in points]
    places: list[tuple[float, float] | None] = []
    for x, y, width in wanted:
        centre = x - width / 2
        sides = ((x + 9.0, y + 0.4 * height), (x - 9.0 - width, y + 0.4 * height))
        place = None
        for left, base in (*sides, (centre, y - 6.0 - 0.5 * height), (centre, y + 10.0 + height)):
            area = (left, base - height, left + width, base + 0.3 * height)
            if _within(area, box) and not any(_overlap(area, other) for other in taken):
                taken.append(area)
                place = left, base
                break
        places.append(place)
    return places


def _within(a: Box, b: Box) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a[2] <= b[2] and a[3] <= b[3]


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
