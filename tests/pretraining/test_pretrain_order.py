"""Each epoch sees every sentence once, in groups of like length that fit, in an order of the seed."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.pretraining.step_order import StepOrder, cut_into_groups

LENGTHS = np.random.default_rng(0).integers(3, 90, 5000)


def made(seed: int = 1, **changes: int) -> StepOrder:
    return StepOrder(LENGTHS, seed=seed, **{"group_tokens": 512, "groups_per_step": 4, **changes})


def test_every_sentence_once_an_epoch() -> None:
    order = made()
    first = order.steps_of(1)
    epochs = [range(first), range(first, order.steps_of(2))]
    seen = []
    for steps in epochs:
        groups = [group for step in steps for group in order.groups(step)]
        assert sorted(np.concatenate(groups).tolist()) == list(range(5000))
        padded = sum(len(group) * LENGTHS[group].max() for group in groups)
        assert padded < 1.01 * LENGTHS.sum(), "hardly anything is padded"
        for group in groups:
            assert len(group) * LENGTHS[group].max() <= 512
        seen.append([group.tolist() for group in groups])
    assert seen[0] != seen[1]
    assert [len(order.groups(step)) for step in range(first - 1)] == [4] * (first - 1)


def test_steps_hold_several_lengths() -> None:
    order = made()
    lengths = [[int(LENGTHS[group].mean()) for group in order.groups(step)] for step in range(50)]
    assert np.mean([max(step) - min(step) for step in lengths]) > 20


def test_a_step_is_known_from_the_seed_alone() -> None:
    forward, backward = made(), made()
    steps = [0, 5, forward.steps_of(1) - 1, forward.steps_of(1), forward.steps_of(3) + 2]
    ours = [[group.tolist() for group in forward.groups(step)] for step in steps]
    theirs = [[group.tolist() for group in backward.groups(step)] for step in reversed(steps)]
    assert ours == theirs[::-1]
    assert [group.tolist() for group in made(seed=2).groups(0)] != ours[0]


def test_tokens_and_epochs_are_counted() -> None:
    order = made()
    assert order.tokens_before(0) == 0
    for step in (1, 7, order.steps_of(1), order.steps_of(1) + 3):
        counted = sum(int(LENGTHS[group].sum()) for before in range(step) for group in order.groups(before))
        assert order.tokens_before(step) == counted
    assert order.epochs_before(order.steps_of(2)) == 2.0
    assert order.epochs_before(order.steps_of(1.5)) == pytest.approx(1.5, abs=0.02)
    assert order.steps_of(1e-9) == 1


def test_a_sentence_longer_than_the_budget_is_alone() -> None:
    lengths = np.array([3, 50, 4, 3])
    groups = cut_into_groups(np.array([0, 3, 2, 1]), lengths, 10)
    assert [group.tolist() for group in groups] == [[0, 3], [2], [1]]
