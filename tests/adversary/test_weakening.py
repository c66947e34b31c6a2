"""Weakening masks and their ascent against a NumPy rendering, an element and a row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast.adversary.weakening import Weakening, WeakeningAscent, weakening_gradient

LAYERS, ROWS, LENGTH, WIDTH = 2, 3, 5, 4
LENGTHS = (5, 3, 1)
REAL = torch.tensor([[i < n for i in range(LENGTH)] for n in LENGTHS])


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHT = random(0, LAYERS, ROWS, LENGTH, WIDTH) - 0.4
TARGET = random(1, LAYERS, ROWS, LENGTH, WIDTH)
START = Weakening(random(2, LAYERS, ROWS, LENGTH), random(3, LAYERS, ROWS, WIDTH))


def loss(masks: Weakening) -> torch.Tensor:
    """Curved in the masks, so that the gradient changes along the way; blind to padding, as an encoder is."""
    fused = torch.stack(masks.fused(REAL))
    return (WEIGHT * (fused - TARGET) ** 2 * REAL.unsqueeze(-1)).sum()


def numpy_mask(keep: np.ndarray, ascent: WeakeningAscent) -> np.ndarray:
    return keep if ascent.continuous else np.where(keep >= ascent.threshold, 1.0, 0.0)


def numpy_ascent(ascent: WeakeningAscent, start: Weakening) -> tuple[np.ndarray, np.ndarray]:
    """L2P-CSR, eq. 1-8, for the loss above; a mask that is off is one and stays."""
    off = (np.ones((LAYERS, ROWS, LENGTH)), np.ones((LAYERS, ROWS, WIDTH)))
    tokens, features = (off[i].copy() if part is None else part.numpy().copy() for i, part in enumerate(start))
    for layer in range(LAYERS):
        for row, length in enumerate(LENGTHS):
            weight, target = WEIGHT[layer, row, :length].numpy(), TARGET[layer, row, :length].numpy()
            for _ in range(ascent.steps):
                token, feature = (numpy_mask(p, ascent) for p in (tokens[layer, row, :length], features[layer, row]))
                fused = np.array([[(t + f) / 2 for f in feature] for t in token])
                slope = weight * (fused - target)  # the 2 of the square's derivative times the ½ of the mean
                for part, g in ((tokens[layer, row, :length], slope.sum(1)), (features[layer, row], slope.sum(0))):
                    part[:] = np.clip(part + ascent.size * g / np.sqrt((g**2).sum()), 0, 1)
                if start.tokens is None:
                    tokens[:] = 1
                if start.features is None:
                    features[:] = 1
    return tokens, features


def ascent(**changes: Any) -> WeakeningAscent:
    return WeakeningAscent(**{"steps": 4, "size": 0.3, "threshold": 0.4, **changes})


@pytest.mark.parametrize("changes", [{"steps": 1}, {}, {"size": 2.0}, {"continuous": True}, {"steps": 0}])
@pytest.mark.parametrize("off", [None, "tokens", "features"])
def test_the_trajectory_matches_the_slow_rendering(changes: dict[str, Any], off: str | None) -> None:
    start = START._replace(**{off: None}) if off else START
    keep, losses = ascent(**changes).climb(start, loss)
    tokens, features = numpy_ascent(ascent(**changes), start)
    assert (keep.tokens is None, keep.features is None) == (off == "tokens", off == "features")
    if keep.tokens is not None:
        np.testing.assert_allclose(keep.tokens[:, REAL].numpy(), tokens[:, REAL.numpy()], atol=1e-12)
    if keep.features is not None:
        np.testing.assert_allclose(keep.features.numpy(), features, atol=1e-12)
    assert len(losses) == ascent(**changes).steps


def test_the_loss_rises() -> None:
    keep, losses = ascent().climb(START, loss)
    assert loss(ascent().masks(keep)) > losses[0] + 0.5
    down, _ = ascent(size=-0.3).climb(START, loss)
    assert loss(ascent().masks(down)) < losses[0] - 0.5


def test_a_probability_at_the_threshold_is_kept() -> None:
    masks = ascent().masks(Weakening(torch.tensor([[[0.4, 0.39, 0.41]]]), None))
    assert masks.tokens is not None
    assert masks.tokens.tolist() == [[[1.0, 0.0, 1.0]]]
    assert masks.features is None


def test_a_fused_mask_is_the_mean_of_both_and_one_at_padding() -> None:
    masks = ascent().masks(START)
    assert masks.tokens is not None
    assert masks.features is not None
    for layer, fused in enumerate(masks.fused(REAL)):
        assert fused.shape == (ROWS, LENGTH, WIDTH)
        for row in range(ROWS):
            for i in range(LENGTH):
                for j in range(WIDTH):
                    mean = (masks.tokens[layer, row, i] + masks.features[layer, row, j]).item() / 2
                    assert fused[row, i, j].item() == (mean if i < LENGTHS[row] else 1.0)
    assert {0.0, 0.5, 1.0} == set(torch.stack(masks.fused(REAL)).unique().tolist())


@pytest.mark.parametrize("off", ["tokens", "features"])
def test_a_mask_that_is_off_is_one(off: str) -> None:
    masks = ascent().masks(START)
    ones = {"tokens": torch.ones(LAYERS, ROWS, LENGTH), "features": torch.ones(LAYERS, ROWS, WIDTH)}
    expected = masks._replace(**{off: ones[off].double()}).fused(REAL)
    for fused, full in zip(masks._replace(**{off: None}).fused(REAL), expected, strict=True):
        assert torch.equal(fused.expand_as(full), full)


def test_without_gradient_a_probability_stays_and_a_faint_gradient_counts_in_full() -> None:
    start = Weakening(torch.tensor([[[0.5, 0.5], [0.5, 0.5]]]), None)
    slopes = torch.tensor([[[0.0, 0.0], [3e-30, -4e-30]]])  # squares of these are zero in fp32
    keep, _ = ascent(steps=1, size=0.1).climb(start, lambda masks: (masks.tokens * slopes).sum())  # type: ignore[operator]
    assert keep.tokens is not None
    torch.testing.assert_close(keep.tokens, torch.tensor([[[0.5, 0.5], [0.56, 0.42]]]))


def test_padding_has_no_gradient() -> None:
    def everything(masks: Weakening) -> torch.Tensor:
        return torch.stack(masks.fused(REAL)).sum()

    slope, _ = weakening_gradient(everything, START)
    assert slope.tokens is not None
    assert slope.features is not None
    assert (slope.tokens[:, REAL] == WIDTH / 2).all()
    assert (slope.tokens[:, ~REAL] == 0).all()
    assert slope.features[0, :, 0].tolist() == [n / 2 for n in LENGTHS]


def test_nothing_is_added_to_a_parameter_and_the_results_are_detached() -> None:
    parameter = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        keep, losses = ascent().climb(START, lambda masks: loss(masks) * parameter)
    assert parameter.grad is None
    assert not any(tensor is not None and tensor.requires_grad for tensor in (*keep, *losses))


def test_as_released_tokens_move_by_their_sign_and_become_one_without_gradient() -> None:
    released = ascent(steps=1, size=0.1, as_released=True)
    token_slopes = torch.tensor([[[1e-3, -5.0, 0.0]]])
    feature_slopes = torch.tensor([[[3.0, 4.0]]])
    start = Weakening(torch.full((1, 1, 3), 0.5), torch.full((1, 1, 2), 0.5))
    keep, _ = released.climb(start, lambda m: (m.tokens * token_slopes).sum() + (m.features * feature_slopes).sum())  # type: ignore[operator]
    assert keep.tokens is not None
    assert keep.features is not None
    torch.testing.assert_close(keep.tokens, torch.tensor([[[0.6, 0.4, 1.0]]]))
    torch.testing.assert_close(keep.features, torch.tensor([[[0.56, 0.58]]]))
