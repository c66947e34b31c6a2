"""InfoNCE against loops in NumPy and against what is known without computing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from holdfast.distributed import gather_keys
from holdfast.objectives.contrastive import info_nce, share_found


def draw(seed: int, rows: int = 6) -> torch.Tensor:
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(
    queries: np.ndarray,
    views: list[np.ndarray],
    temperature: float,
    offset: int = 0,
    extra: list[np.ndarray] | None = None,
    in_batch: bool = True,
    similarity: str = "cosine",
) -> float:
    """RobustEmbed, eq. 2 and AdCSE, eq. 5, term by term."""

    def sim(a: np.ndarray, b: np.ndarray) -> float:
        length = np.linalg.norm(a) * np.linalg.norm(b) if similarity == "cosine" else 1.0
        return math.exp(a @ b / length / temperature)

    total = 0.0
    for i, query in enumerate(queries):
        above = sum(sim(query, keys[i + offset]) for keys in views)
        below = sum(sim(query, key) for keys in views for key in keys) if in_batch else above
        below += sum(sim(query, negative) for negative in extra or [])
        total += -math.log(above / below)
    return total / len(queries)


@pytest.mark.parametrize("views", [1, 2, 3])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_value_matches_the_equation(views: int, temperature: float) -> None:
    queries, keys = draw(0), [draw(1 + v) for v in range(views)]
    expected = reference(queries.numpy(), [key.numpy() for key in keys], temperature)
    assert info_nce(queries, keys, temperature=temperature).item() == pytest.approx(expected, rel=1e-12)


def test_offset_picks_the_keys_of_this_process() -> None:
    queries, keys = draw(0, rows=3), draw(1, rows=9)
    expected = reference(queries.numpy(), [keys.numpy()], 0.1, offset=3)
    assert info_nce(queries, [keys], temperature=0.1, offset=3).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_extra_negatives_stand_below_the_line_alone(views: int, in_batch: bool, similarity: str) -> None:
    queries, keys, extra = draw(0, rows=3), [draw(1 + v, rows=9) for v in range(views)], draw(8, rows=4)
    options = {"temperature": 0.5, "offset": 3, "in_batch_negatives": in_batch, "similarity": similarity}
    mask = torch.tensor([True, False, True, True])
    for given, kept in [(None, [0, 1, 2, 3]), (mask, [0, 2, 3]), (~mask, [1]), (mask & ~mask, [])]:
        found = info_nce(queries, keys, extra_negatives=extra, extra_mask=given, **options)  # type: ignore[arg-type]
        vectors = [extra[row].numpy() for row in kept]
        expected = reference(queries.numpy(), [key.numpy() for key in keys], 0.5, 3, vectors, in_batch, similarity)
        assert found.item() == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_masked_negatives_have_no_gradient_and_may_hold_anything() -> None:
    queries, keys, extra = draw(0), draw(1), draw(2)
    extra[1] = 1e300  # would drown all others
    extra.requires_grad_()
    mask = torch.tensor([True, False, True, True, True, True])
    loss = info_nce(queries, [keys], temperature=0.1, extra_negatives=extra, extra_mask=mask, similarity="dot")
    (grad,) = torch.autograd.grad(loss, extra)
    assert torch.isfinite(loss)
    assert (grad[1] == 0).all()
    assert (grad[mask].abs().amax(dim=1) > 0).all()


def test_no_extra_negatives_are_as_none_given() -> None:
    queries, keys = draw(0), draw(1)
    none = info_nce(queries, [keys], temperature=0.1, extra_negatives=keys[:0])
    torch.testing.assert_close(none, info_nce(queries, [keys], temperature=0.1), rtol=0, atol=0)
    assert info_nce(queries, [keys], temperature=0.1, in_batch_negatives=False).item() == 0, "no negative, no loss"


def test_one_view_is_cross_entropy_with_its_gradient() -> None:
    queries, keys = draw(0).requires_grad_(), draw(1).requires_grad_()
    ours = torch.autograd.grad(info_nce(queries, [keys], temperature=0.05), (queries, keys))
    unit = torch.nn.functional.normalize
    logits = unit(queries) @ unit(keys).T / 0.05
    stock = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, torch.arange(6)), (queries, keys))
    for mine, theirs in zip(ours, stock, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_special_cases() -> None:
    queries, keys = draw(0), draw(1)
    assert info_nce(queries, [keys], temperature=1e9).item() == pytest.approx(math.log(6)), "τ → ∞: a uniform guess"
    same = queries[:1].expand(6, 5)
    assert info_nce(same, [same], temperature=0.05).item() == pytest.approx(math.log(6)), "identical sentences"
    assert info_nce(queries, [queries], temperature=1e-3).item() == pytest.approx(0, abs=1e-9), "τ → 0: certain"
    one = info_nce(queries, [keys], temperature=0.1)
    torch.testing.assert_close(info_nce(queries, [keys, keys], temperature=0.1), one)
    assert info_nce(queries[:1], [keys[:1]], temperature=0.1).item() == pytest.approx(0), "no negatives, no loss"


def test_permuting_the_batch_changes_nothing_and_length_of_vectors_neither() -> None:
    queries, keys = draw(0), draw(1)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    expected = info_nce(queries, [keys], temperature=0.1)
    torch.testing.assert_close(info_nce(queries[order], [keys[order]], temperature=0.1), expected)
    torch.testing.assert_close(info_nce(queries * 7, [keys * 0.1], temperature=0.1), expected)


def test_stays_in_full_precision_under_autocast() -> None:
    queries, keys = draw(0).float(), draw(1).float()
    expected = info_nce(queries, [keys], temperature=0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = info_nce(queries, [keys], temperature=0.05)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0, atol=0)


def test_one_process_keeps_its_keys() -> None:
    keys = draw(0)
    joined, offset = gather_keys(keys)
    assert joined is keys
    assert offset == 0


def test_the_share_of_queries_that_find_their_own_key() -> None:
    keys = torch.eye(4)
    assert share_found(keys, 7 * keys) == 1.0, "by cosine"
    assert share_found(keys, keys[[1, 0, 2, 3]]) == 0.5
    assert share_found(keys[2:], keys, offset=2) == 1.0, "the second of two processes"
    assert share_found(keys[2:], keys) == 0.0
    others = torch.tensor([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0]])  # the first two swapped
    queries = torch.tensor([[0.1, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert share_found(queries, others) == pytest.approx(1 / 3)
    equal = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    assert share_found(queries, others, equal=equal) == 1.0, "an equal text is no mistake"
