"""The key queue against a plain Python list."""

from __future__ import annotations

import pytest
import torch

from holdfast.adversary import key_queue as queue_module
from holdfast.adversary.key_queue import KeyQueue


def batch(first: int, count: int) -> torch.Tensor:
    """Keys (n, −n) that can be told apart."""
    numbers = torch.arange(first, first + count, dtype=torch.float32)
    return torch.stack([numbers, -numbers], dim=1)


def held(queue: KeyQueue) -> set[int]:
    return {int(key[0]) for key in queue.vectors()}


@pytest.mark.parametrize("counts", [[3, 3, 3, 3], [1, 7, 2, 5, 1], [7, 7, 1], [20], [2, 20, 3], [9, 30, 1, 1]])
def test_it_holds_exactly_the_last_keys(counts: list[int]) -> None:
    queue, pushed = KeyQueue(7, 2), 0
    for count in counts:
        queue.push(batch(pushed, count))
        pushed += count
        expected = list(range(pushed))[-7:]
        assert held(queue) == set(expected)
        assert len(queue.vectors()) == len(expected) == int(queue.filled)
        assert queue.share.item() == pytest.approx(len(expected) / 7)


def test_the_oldest_makes_room_first() -> None:
    queue = KeyQueue(4, 2)
    queue.push(batch(0, 3))
    queue.push(batch(3, 2))
    assert queue.vectors()[:, 0].tolist() == [4, 1, 2, 3]
    queue.push(batch(5, 1))
    assert queue.vectors()[:, 0].tolist() == [4, 5, 2, 3]


def test_slots_that_were_never_filled_do_not_count() -> None:
    queue = KeyQueue(5, 2)
    assert queue.vectors().shape == (0, 2)
    assert queue.equal_to(torch.tensor([[17], [18]])).shape == (2, 0)
    queue.push(batch(1, 2))
    assert queue.vectors().tolist() == batch(1, 2).tolist()
    assert queue.equal_to(torch.tensor([[17]])).shape == (1, 2)
    other = KeyQueue(5, 2)
    other.load_state_dict(queue.state_dict())
    assert torch.equal(other.vectors(), queue.vectors())


def test_a_random_start_counts_as_filled_and_lies_within_tanh() -> None:
    torch.manual_seed(0)
    queue = KeyQueue(1000, 2, random_start=True)
    assert queue.vectors().shape == (1000, 2)
    assert queue.vectors().abs().max() < 1
    assert 0.5 < queue.vectors().std() < 0.7  # the standard deviation of tanh(N(0, 1)) is 0.63
    queue.push(batch(5, 1))
    assert queue.vectors()[0].tolist() == [5, -5]


def test_keys_of_other_processes_are_taken_in_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "gather_keys", lambda keys: (torch.cat([keys, keys + 100]), 0))
    queue = KeyQueue(8, 2)
    queue.push(batch(0, 2))
    assert queue.vectors()[:4, 0].tolist() == [0, 1, 100, 101]


def test_the_queue_is_state_and_carries_no_gradient() -> None:
    queue = KeyQueue(3, 2)
    keys = batch(0, 2).requires_grad_()
    queue.push(keys * 2)
    assert not queue.vectors().requires_grad
    other = KeyQueue(3, 2)
    other.load_state_dict(queue.state_dict())
    other.push(batch(7, 2))
    assert other.vectors()[:, 0].tolist() == [8, 2, 7]
    assert KeyQueue(3, 2).double().keys.dtype == torch.float64


def test_an_empty_queue_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one key"):
        KeyQueue(0, 2)


def test_the_texts_of_the_keys_move_with_them() -> None:
    queue = KeyQueue(4, 2, columns=2)
    queue.push(batch(0, 3), torch.tensor([[1, 10], [2, 20], [3, 30]]))
    queue.push(batch(3, 2), torch.tensor([[4, 40], [5, 50]]))
    assert queue.texts.tolist() == [[5, 50], [2, 20], [3, 30], [4, 40]]
    asked = torch.tensor([[5, 99], [40, 99], [1, 10], [2, 30]])
    assert queue.equal_to(asked).int().tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]]
    other = KeyQueue(4, 2, columns=2)
    other.load_state_dict(queue.state_dict())
    assert torch.equal(other.equal_to(asked), queue.equal_to(asked))


def test_keys_of_no_text_and_empty_slots_equal_none() -> None:
    none = torch.zeros(1, 1, dtype=torch.long)
    assert not KeyQueue(3, 2).equal_to(none).any()
    queue = KeyQueue(3, 2, random_start=True)
    queue.push(batch(0, 1))
    assert not queue.equal_to(torch.tensor([[17]])).any()


def test_texts_of_other_processes_are_taken_in_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "gather_keys", lambda mine: (torch.cat([mine, mine + 100]), 0))
    queue = KeyQueue(8, 2)
    queue.push(batch(0, 2), torch.tensor([[1], [2]]))
    assert queue.texts[:4, 0].tolist() == [1, 2, 101, 102]
