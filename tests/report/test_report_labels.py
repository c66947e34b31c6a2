"""Where the names of a figure's points go."""

from __future__ import annotations

from holdfast.report.labels import free_places

BOX = (0.0, 0.0, 200.0, 100.0)


def test_a_label_goes_right_then_left_then_above_then_below_then_aslant() -> None:
    alone = [(100.0, 50.0, 30.0)]
    right, left, above = (124.0, 50.0), (76.0, 50.0), (100.0, 39.0)  # each where a label of that side would be
    for others, expected in (
        ([], (109.0, 54.0)),
        ([right], (61.0, 54.0)),
        ([right, left], (85.0, 39.0)),
        ([right, left, above], (85.0, 70.0)),
        ([right, left, above, (100.0, 66.0)], (109.0, 39.0)),
        ([right, left, above, (100.0, 66.0), (118.0, 39.0)], (61.0, 39.0)),
        ([(112.0, y) for y in (40.0, 50.0, 66.0)] + [(88.0, y) for y in (40.0, 50.0, 66.0)], None),
    ):
        assert free_places(alone, [(100.0, 50.0), *others], BOX, 10.0) == [expected]


def test_no_label_leaves_the_box_or_covers_another() -> None:
    points = [(195.0, 50.0), (195.0, 56.0), (195.0, 44.0)]
    first, second, third = free_places([(*point, 60.0) for point in points], points, BOX, 10.0)
    assert first == (126.0, 54.0)  # left, since the right is outside
    assert second == (126.0, 76.0)  # left and below
    assert third == (126.0, 33.0)  # left and above
    crowd = [*points, (195.0, 70.0), (186.0, 70.0)]
    assert free_places([(*point, 60.0) for point in points], crowd, (120.0, 40.0, 200.0, 80.0), 10.0)[2] is None
    assert free_places([(100.0, 50.0, 300.0)], [(100.0, 50.0)], BOX, 10.0) == [None]


def test_whiskers_are_not_covered_and_other_lines_are() -> None:
    level, aslant = ((98.0, 50.0), (120.0, 50.0)), ((90.0, 40.0), (120.0, 60.0))
    for stroke, expected in ((level, (61.0, 54.0)), (aslant, (109.0, 54.0))):
        assert free_places([(100.0, 50.0, 30.0)], [(100.0, 50.0)], BOX, 10.0, [stroke]) == [expected]
