"""The rule that chooses the weights, on made-up numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast.hardening.goal.choice_rule import Candidate, Change, judge, kept, recalls, recovered
from holdfast.hardening.goal.measured_goal import Outcomes

NONE = Change(0.0, 0.0, 0.0, 1.0)


def candidate(
    step: int,
    share: float | None,
    clean: Change = NONE,
    hold: Change | None = NONE,
    weight: float = 1.0,
    error: float = 0.0,
) -> Candidate:
    return Candidate(step, weight, share, {}, clean, hold, error)


FELL = Change(-0.2, -0.3, -0.1, 0.01)
FELL_FAR = Change(-0.31, -0.9, 0.3, 0.3)
FELL_LITTLE = Change(-0.3, -0.9, 0.3, 0.3)
ROSE = Change(0.5, 0.1, 0.9, 0.01)


@pytest.mark.parametrize(
    ("candidates", "step"),
    [
        ([candidate(1, 10.0), candidate(2, 20.0)], 2),
        ([candidate(1, 10.0), candidate(2, 20.0, FELL)], 1),  # a significant fall, however small
        ([candidate(1, 10.0), candidate(2, 20.0, FELL_FAR)], 1),  # a large one, significant or not
        ([candidate(1, 10.0), candidate(2, 20.0, FELL_LITTLE)], 2),
        ([candidate(1, 10.0), candidate(2, 20.0, ROSE)], 2),
        ([candidate(1, 10.0), candidate(2, 20.0, hold=FELL)], 1),
        ([candidate(1, 10.0), candidate(2, 20.0, hold=FELL_FAR)], 2),  # hold/move has no tolerance in points
        ([candidate(1, 10.0), candidate(2, 20.0, hold=None)], 2),
        ([candidate(1, 20.0, FELL), candidate(2, 20.0, hold=FELL)], None),
        ([candidate(1, 0.0), candidate(2, -1.0)], None),
        ([candidate(1, None)], None),
        ([], None),
        ([candidate(2, 20.0), candidate(1, 20.0)], 1),  # of equal ones the earlier step
        ([candidate(1, 20.0), candidate(2, 20.0, weight=0.5)], 2),  # but first the smaller weight
        ([candidate(1, 20.0, error=2.0), candidate(2, 18.0, weight=0.5)], 2),  # one that is as good, by the error
        ([candidate(1, 20.0, error=2.0), candidate(2, 17.9, weight=0.5, error=9.0)], 1),  # of the best, not its own
        ([candidate(1, 20.0, error=30.0), candidate(2, 0.0, weight=0.5)], 1),  # but none that recovers nothing
        ([candidate(1, 18.5), candidate(2, 20.0, error=2.0)], 2),  # of equal weights the one that recovers more
    ],
)
def test_the_best_admissible_weights_are_kept(candidates: list[Candidate], step: int | None) -> None:
    chosen = kept(candidates)
    assert (None if chosen is None else chosen.step) == step
    back = kept(candidates[::-1])
    assert (None if back is None else back.step) == step


def outcomes(nearer: Any = (), **right: tuple[int, int]) -> Outcomes:
    """Outcomes by GROUP_VERSION: so many of so many queries find their document."""
    found = {
        tuple(name.split("_")): np.arange(total) < count
        for name, (count, total) in right.items()  # type: ignore[misc]
    }
    return Outcomes(found, tuple(group for group in ("texts",) if (group, "clean") in found), np.array(nearer, float))


BEFORE = {"texts_clean": (80, 100), "texts_typing": (60, 100), "texts_speech": (40, 100)}
BEFORE |= {"queries_clean": (100, 100), "queries_typing": (50, 100), "queries_speech": (99, 100)}


def test_the_share_of_noise_that_is_recovered() -> None:
    before = outcomes(**BEFORE)
    new = {**BEFORE, "texts_typing": (65, 100), "texts_speech": (50, 100), "queries_typing": (75, 100)}
    # typing: 5 of 20 and 25 of 50 queries; speech: 10 of 40 and 0 of 1; a loss of 5 of 1,000 does not count.
    assert recovered(before, outcomes(**new))[0] == pytest.approx(100.0 * (30 / 70 + 10 / 41) / 2)
    little = {**BEFORE, "queries_speech": (995, 1000), "queries_clean": (1000, 1000), "queries_typing": (500, 1000)}
    fewer = {**little, "queries_speech": (1000, 1000), "texts_speech": (50, 100)}
    assert recovered(outcomes(**little), outcomes(**fewer))[0] == pytest.approx(np.mean([0.0, 25.0]))
    few = outcomes(**{**BEFORE, "queries_clean": (10, 10), "queries_speech": (9, 10), "queries_typing": (5, 10)})
    fell = {"queries_clean": (10, 10), "queries_speech": (9, 10), "queries_typing": (0, 10)}
    lost = outcomes(**{**BEFORE, **fell, "texts_typing": (65, 100)})
    assert recovered(few, lost)[0] == pytest.approx(0.0), "of 20 and of 5 queries, 5 are found and 5 lost"
    assert recovered(before, before) == (0.0, 0.0)
    silent = outcomes(texts_clean=(80, 100), texts_typing=(80, 100))
    assert recovered(silent, silent) == (None, 0.0)


def test_the_error_is_that_of_a_bootstrap_over_the_queries() -> None:
    draw = np.random.default_rng(3)
    clean, typing, speech = np.arange(400) < 380, draw.random(400) < 0.6, draw.random(400) < 0.4
    new = {"typing": typing | (draw.random(400) < 0.1), "speech": speech ^ (draw.random(400) < 0.2)}
    before = Outcomes({("texts", "clean"): clean, ("texts", "typing"): typing, ("texts", "speech"): speech}, (), [])
    after = Outcomes({("texts", "clean"): clean, **{("texts", name): own for name, own in new.items()}}, (), [])
    losses = [clean.sum() - own.sum() for own in (typing, speech)]
    changes = np.stack([new["typing"] * 1.0 - typing, new["speech"] * 1.0 - speech]) / np.array(losses)[:, None]
    rows = draw.integers(0, 400, (4000, 400))
    shares = 100.0 * changes[:, rows].sum(axis=2).mean(axis=0)
    share, error = recovered(before, after)
    assert share == pytest.approx(100.0 * changes.sum(axis=1).mean())
    assert error == pytest.approx(shares.std(), rel=0.05)


def test_an_encoder_is_judged_by_labelled_queries_and_pairs() -> None:
    before = outcomes([1.0, 1.0, 0.0, 0.5] * 25, **BEFORE)
    new = outcomes([0.0, 1.0, 0.0, 0.5] * 25, **{**BEFORE, "texts_clean": (70, 100), "queries_clean": (10, 100)})
    found = judge(before, new, step=7, weight=0.5)
    assert (found.step, found.weight) == (7, 0.5)
    assert found.clean.difference == pytest.approx(-10.0)
    assert found.clean.fell
    assert found.hold_move is not None
    assert found.hold_move.difference == pytest.approx(-25.0)
    assert found.hold_move.fell
    assert not found.admissible
    assert recalls(new)["clean"] == 70.0
    assert recalls(new)["queries clean"] == 10.0
    assert recalls(new)["hold_move"] == pytest.approx(37.5)
    # The clean queries that are not labelled find other documents: that alone is no fall of recall.
    same = judge(before, outcomes([1.0, 1.0, 0.0, 0.5] * 25, **{**BEFORE, "queries_clean": (10, 100)}), step=7)
    assert same.admissible
    assert same.clean == NONE
    record = found.record()
    assert record["differences"]["clean"]["high"] < 0.0
    assert record["admissible"] is False
    assert "hold_move" not in judge(outcomes(**BEFORE), outcomes(**BEFORE), step=1).record()["differences"]
