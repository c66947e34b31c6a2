"""Augmentations of a batch of sentences at the embedding layer: shuffling, cutoffs and dropout (ConSERT, §3.2).

Each is a pure function of uniform random numbers, so that the same numbers give the same view. Padding does not count
as tokens. Cut values are set to zero, and the others are not rescaled.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast.backbone import Features


def joined_rows(first: Features, second: Features) -> dict[str, Any]:
    """Concatenate two batches of the same shape: the rows of the first, then those of the second.

    Features that are not tensors with one entry per row are taken from the first.
    """
    rows = len(first["attention_mask"])
    return {
        key: torch.cat([value, second[key]]) if isinstance(value, Tensor) and value.shape[:1] == (rows,) else value
        for key, value in first.items()
    }


def shuffled_order(draws: Tensor, movable: Tensor) -> Tensor:
    """Return the source position of each position of a shuffled row, (rows, L).

    Args:
        draws: (rows, L), uniform in [0, 1).
        movable: (rows, L), true at the positions that are shuffled; the others stay.
    """
    places = (~movable).long().argsort(dim=1, stable=True)
    taken = draws.masked_fill(~movable, float("inf")).argsort(dim=1, stable=True)
    return torch.empty_like(places).scatter_(1, places, taken)


def token_cutoff(draws: Tensor, real: Tensor, rate: float) -> Tensor:
    """Return the mask of token cutoff, (rows, L, 1), False at ⌊rate·n⌋ of a sentence's n tokens.

    Args:
        draws: (rows, L), uniform in [0, 1); the lowest are cut.
        real: (rows, L), true at tokens, false at padding.
        rate: share of the tokens to cut, in [0, 1).
    """
    ranks = draws.masked_fill(~real, float("inf")).argsort(dim=1).argsort(dim=1)
    cut = (real.sum(dim=1, keepdim=True).double() * rate).floor()
    return (ranks >= cut).unsqueeze(-1)


def feature_cutoff(draws: Tensor, rate: float) -> Tensor:
    """Return the mask of feature cutoff, (rows, 1, d), False at ⌊rate·d⌋ features, the same for all tokens.

    Args:
        draws: (rows, d), uniform in [0, 1); the lowest are cut.
        rate: share of the features to cut, in [0, 1).
    """
    ranks = draws.argsort(dim=1).argsort(dim=1)
    return (ranks >= int(draws.shape[1] * rate)).unsqueeze(1)


def element_dropout(draws: Tensor, rate: float) -> Tensor:
    """Return the mask of element-wise dropout, (rows, L, d), False at the elements to set to zero.

    Args:
        draws: (rows, L, d), uniform in [0, 1).
        rate: probability of setting an element to zero, in [0, 1).
    """
    return draws >= rate
