"""The points of a picture: seeds, ranges, order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from holdfast.errors import UserError
from holdfast.evaluation.adversarial_space import TextPairs
from holdfast.evaluation.projection import Plane, check_perplexity, drawn, project


def pairs_of(count: int, labels: Any = None) -> TextPairs:
    return TextPairs(
        recipe="typos",
        item=None,
        clean=tuple(f"clean {i}" for i in range(count)),
        adversarial=tuple(f"adversarial {i}" for i in range(count)),
        labels=tuple(i % 2 for i in range(count)) if labels is None else labels,
        with_other=False,
        left_out={},
    )


def two_clouds(count: int) -> tuple[Any, Any]:
    """Clean texts of two far classes; each adversarial text lies close to its own."""
    draw = np.random.default_rng(0)
    clean = draw.normal(size=(count, 6)) + 30.0 * (np.arange(count) % 2)[:, None]
    return clean, clean + 0.01 * draw.normal(size=(count, 6))


@pytest.fixture(scope="module")
def plane() -> Plane:
    return project(pairs_of(20), *two_clouds(20), seed=1)


def test_points_fill_the_square_and_neighbours_stay_neighbours(plane: Plane) -> None:
    points = np.concatenate([plane.clean, plane.adversarial])
    assert points.min(axis=0).tolist() == [0.0, 0.0]
    assert points.max(axis=0).tolist() == [1.0, 1.0]
    distances = np.linalg.norm(plane.clean[:, None] - plane.adversarial[None], axis=2)
    assert (distances.argmin(axis=1) % 2 == np.arange(20) % 2).all(), "the classes stay apart"
    assert np.mean(distances.argmin(axis=1) == np.arange(20)) > 0.8


def test_clean_points_are_those_of_clean_texts() -> None:
    clean, _ = two_clouds(20)
    adversarial = np.random.default_rng(1).normal(size=(20, 6)) - 60.0  # one cloud apart
    found = project(pairs_of(20), clean, adversarial, seed=1)

    def between_classes(points: Any) -> float:
        return float(np.linalg.norm(points[::2].mean(axis=0) - points[1::2].mean(axis=0)))

    assert between_classes(found.clean) > 3 * between_classes(found.adversarial)


def test_a_seed_gives_the_same_points(plane: Plane) -> None:
    again = project(pairs_of(20), *two_clouds(20), seed=1)
    assert again.clean.tolist() == plane.clean.tolist()
    assert again.adversarial.tolist() == plane.adversarial.tolist()


def test_lengths_of_vectors_do_not_stop_it() -> None:
    clean, adversarial = two_clouds(10)
    tiny = project(pairs_of(10), clean * 1e-12, adversarial * 1e-12, seed=1)
    assert np.isfinite(tiny.clean).all()
    assert np.ptp(tiny.clean, axis=0).min() > 0.1


def test_the_json_has_a_point_for_each_text(plane: Plane) -> None:
    message = json.loads(json.dumps(plane.as_json()))
    assert message["n"] == 20
    assert len(message["points"]) == 40
    third = [point for point in message["points"] if point["pair"] == 3]
    assert [(point["kind"], point["text"]) for point in third] == [
        ("clean", "clean 3"),
        ("adversarial", "adversarial 3"),
    ]
    assert third[0]["label"] == 1
    assert (third[1]["x"], third[1]["y"]) == pytest.approx(tuple(plane.adversarial[3]), abs=1e-6)


def test_two_pairs_are_enough() -> None:
    few = project(pairs_of(2), *two_clouds(2), seed=1)
    assert few.perplexity == 1.0
    assert np.isfinite(few.clean).all()


def test_the_perplexity_follows_the_number_of_texts() -> None:
    assert check_perplexity(2000, None) == 30.0
    assert check_perplexity(31, None) == 10.0
    assert check_perplexity(31, 10.0) == 10.0
    for bad in (0.5, 10.1):
        with pytest.raises(UserError, match="it takes 1 to 10"):
            check_perplexity(31, bad)


def test_what_cannot_be_drawn_is_refused() -> None:
    clean, adversarial = two_clouds(5)
    with pytest.raises(UserError, match="the same vector"):
        project(pairs_of(5), np.ones((5, 4)), np.ones((5, 4)), seed=1)
    adversarial[2, 1] = np.nan
    with pytest.raises(UserError, match="not finite"):
        project(pairs_of(5), clean, adversarial, seed=1)


def test_pairs_are_drawn_by_seed_and_stay_in_order() -> None:
    pairs = pairs_of(30)
    some, rows = drawn(pairs, 7, seed=5)
    assert rows == sorted(rows)
    assert some.clean == tuple(f"clean {row}" for row in rows)
    assert some.adversarial == tuple(f"adversarial {row}" for row in rows)
    assert some.labels == tuple(row % 2 for row in rows)
    assert drawn(pairs, 7, seed=5)[1] == rows
    assert drawn(pairs, 7, seed=6)[1] != rows
    assert drawn(pairs, 99, seed=5)[0] is pairs
    with pytest.raises(UserError, match="from 2 to"):
        drawn(pairs, 1, seed=5)
