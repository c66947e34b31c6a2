"""Losses that leave equal texts out, term by term against loops in NumPy; and the gradients of InfoNCE."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.objectives import ConSERT, ContrastiveTension
from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.robustembed import _clean_negatives, _of_released_pairs, _released_pairs

TEXTS = [0, 1, 0, 2, 1, 0]
"""Which text each key is of."""


def draw(seed: int, rows: int = 6) -> torch.Tensor:
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def equal(ours: list[int], theirs: list[int]) -> torch.Tensor:
    return torch.tensor([[one == other for other in theirs] for one in ours])


def exp_cosine(a: Any, b: Any, temperature: float) -> float:
    return math.exp(a @ b / np.linalg.norm(a) / np.linalg.norm(b) / temperature)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("in_batch", [True, False])
def test_info_nce(views: int, offset: int, in_batch: bool) -> None:
    queries, keys, extra = draw(0, rows=3), [draw(1 + view) for view in range(views)], draw(9, rows=4)
    counts = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]], dtype=torch.bool)
    own = TEXTS[offset : offset + 3]
    found = info_nce(
        queries,
        keys,
        temperature=0.3,
        offset=offset,
        equal=equal(own, TEXTS),
        extra_negatives=extra,
        extra_mask=counts,
        in_batch_negatives=in_batch,
    )
    total = 0.0
    for i, query in enumerate(queries.numpy()):
        above = sum(exp_cosine(query, view[i + offset].numpy(), 0.3) for view in keys)
        below = above
        for j in range(6 if in_batch else 0):
            if TEXTS[j] != own[i]:
                below += sum(exp_cosine(query, view[j].numpy(), 0.3) for view in keys)
        below += sum(exp_cosine(query, extra[m].numpy(), 0.3) for m in range(4) if counts[i, m])
        total -= math.log(above / below) / 3
    assert found.item() == pytest.approx(total, rel=1e-12)


def test_the_gradient_of_what_is_left_out_is_zero() -> None:
    queries, keys = draw(0).requires_grad_(), draw(1).requires_grad_()
    ours = torch.autograd.grad(info_nce(queries, [keys], temperature=0.3, equal=equal(TEXTS, TEXTS)), (queries, keys))
    terms = []
    for i in range(6):
        own, *others = (
            torch.cosine_similarity(queries[i], keys[j], dim=0) / 0.3
            for j in [i, *(j for j in range(6) if TEXTS[j] != TEXTS[i])]
        )
        terms.append(torch.stack([own, *others]).exp().sum().log() - own)
    theirs = torch.autograd.grad(torch.stack(terms).mean(), (queries, keys))
    for mine, slow in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, slow, rtol=1e-9, atol=1e-12)
    alone = torch.autograd.grad(
        info_nce(queries, [keys], temperature=0.3, equal=equal([0] * 6, [0] * 6)), (queries, keys)
    )
    assert all((gradient == 0).all() for gradient in alone), "log 1"


def test_clean_negatives() -> None:
    z, plus, adversarial = draw(0, rows=3), draw(1), draw(2)
    own = TEXTS[2:5]
    found = _clean_negatives(z, [plus, adversarial], 0.5, 2, equal(own, TEXTS))
    total = 0.0
    for i in range(3):
        above = sum(exp_cosine(z[i].numpy(), view[i + 2].numpy(), 0.5) for view in (plus, adversarial))
        others = sum(exp_cosine(z[i].numpy(), plus[j].numpy(), 0.5) for j in range(6) if TEXTS[j] != own[i])
        total -= math.log(above / (above + others)) / 3
    assert found.item() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("rows", [6, 5])
def test_the_released_pairs_carry_their_texts(rows: int) -> None:
    texts = TEXTS[:rows]
    numbers = torch.tensor(texts)[:, None]
    queries, keys = _released_pairs(numbers, numbers)
    found = _of_released_pairs(equal(texts, texts))
    assert found is not None
    assert torch.equal(found, queries == keys.T)


@pytest.mark.parametrize(("processes", "rank"), [(1, 0), (2, 0), (2, 1)])
def test_nt_xent(make_encoder_model: Any, monkeypatch: pytest.MonkeyPatch, processes: int, rank: int) -> None:
    from holdfast.objectives import consert

    objective = ConSERT(make_encoder_model("bert"), temperature=0.4)
    views = [(draw(2 * p, rows=3), draw(2 * p + 1, rows=3)) for p in range(processes)]
    joined = torch.cat([view for pair in views for view in pair])
    monkeypatch.setattr(consert, "gather_keys", lambda mine: (joined, 6 * rank))
    texts = TEXTS[: 3 * processes]
    own = texts[3 * rank : 3 * rank + 3]
    found = objective.compute_loss(*views[rank], equal(own, texts))
    of_row = [text for p in range(processes) for _ in range(2) for text in texts[3 * p : 3 * p + 3]]
    total = 0.0
    for i in range(6 * rank, 6 * rank + 6):
        partner = i + 3 if i % 6 < 3 else i - 3
        positive = exp_cosine(joined[i].numpy(), joined[partner].numpy(), 0.4)
        others = sum(
            exp_cosine(joined[i].numpy(), joined[j].numpy(), 0.4) for j in range(len(joined)) if of_row[j] != of_row[i]
        )
        total -= math.log(positive / (positive + others)) / 6
    assert found.item() == pytest.approx(total, rel=1e-12)


def test_a_negative_pair_of_equal_texts_is_left_out_of_contrastive_tension(make_encoder_model: Any) -> None:
    objective = ContrastiveTension(make_encoder_model("bert"), negatives=3)
    first, second, shifts = draw(0, rows=3), draw(1), [2, 1, 5]
    own = TEXTS[3:6]
    found = objective.compute_loss(first, second, torch.tensor(shifts), 3, equal(own, TEXTS))
    total = 0.0
    for i in range(3):
        total += math.log1p(math.exp(-float(first[i] @ second[i + 3])))
        for shift in shifts:
            j = (i + 3 + shift) % 6
            if TEXTS[j] != own[i]:
                total += math.log1p(math.exp(float(first[i] @ second[j])))
    assert found.item() == pytest.approx(total / 12, rel=1e-12)
