"""Each augmentation against a slow rendering, a sentence at a time."""

from __future__ import annotations

import pytest
import torch

from holdfast.adversary.embedding_augmentation import (
    element_dropout,
    feature_cutoff,
    joined_rows,
    shuffled_order,
    token_cutoff,
)

LENGTHS = (20, 7, 1, 13)
REAL = torch.tensor([[i < n for i in range(20)] for n in LENGTHS])


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_shuffling_permutes_the_movable_tokens_and_leaves_the_others() -> None:
    movable = REAL.clone()
    movable[:, 0] = False
    movable[0, 5] = False
    numbers = draws(4, 20)
    order = shuffled_order(numbers, movable)
    for row in range(4):
        places = [i for i in range(20) if movable[row, i]]
        expected = list(range(20))
        for place, taken in zip(places, sorted(places, key=lambda i: numbers[row, i].item()), strict=True):
            expected[place] = taken
        assert order[row].tolist() == expected
    assert order[0].tolist() != list(range(20))


def test_every_order_is_equally_likely() -> None:
    order = shuffled_order(draws(6000, 4), torch.tensor([[False, True, True, True]]).expand(6000, 4))
    orders, counts = order.unique(dim=0, return_counts=True)
    assert len(orders) == 6
    assert counts.min() > 900
    assert (order[:, 0] == 0).all()


@pytest.mark.parametrize("rate", [0.0, 0.15, 0.5, 0.99])
def test_token_cutoff_cuts_a_share_of_the_real_tokens(rate: float) -> None:
    numbers = draws(4, 20)
    keep = token_cutoff(numbers, REAL, rate)
    assert keep.shape == (4, 20, 1)
    assert keep.dtype == torch.bool
    for row, length in enumerate(LENGTHS):
        cut = sorted(range(length), key=lambda i: numbers[row, i].item())[: int(length * rate)]
        assert [i for i in range(20) if not keep[row, i, 0]] == sorted(cut)


def test_feature_cutoff_cuts_the_same_features_in_the_whole_sentence() -> None:
    numbers = draws(4, 16)
    keep = feature_cutoff(numbers, 0.2)
    assert keep.shape == (4, 1, 16)
    for row in range(4):
        cut = sorted(range(16), key=lambda j: numbers[row, j].item())[: int(16 * 0.2)]
        assert [j for j in range(16) if not keep[row, 0, j]] == sorted(cut)
    assert not torch.equal(keep[0], keep[1])


def test_dropout_is_of_each_element_by_itself() -> None:
    keep = element_dropout(draws(10, 20, 50), 0.2)
    assert keep.shape == (10, 20, 50)
    assert keep.float().mean().item() == pytest.approx(0.8, abs=0.02)
    assert keep.float().mean(dim=2).std() > 0.02, "whole tokens or features would be another augmentation"
    assert element_dropout(draws(2, 3, 4), 0.0).all()


def test_rows_are_joined_in_order_and_other_values_kept() -> None:
    first = {"input_ids": torch.tensor([[1], [2]]), "attention_mask": torch.ones(2, 1), "modality": "text"}
    second = {"input_ids": torch.tensor([[3], [4]]), "attention_mask": torch.zeros(2, 1), "modality": "text"}
    joined = joined_rows(first, second)
    assert joined["input_ids"].flatten().tolist() == [1, 2, 3, 4]
    assert joined["attention_mask"].flatten().tolist() == [1, 1, 0, 0]
    assert joined["modality"] == "text"
