"""Augmentations of a batch of sentences at the embedding layer: shuffling, cutoffs and dropout (ConSERT, §3.2).

Each is a pure function of ``draws``, uniform in [0, 1), so that equal numbers give equal views; the lowest are cut:
set to zero, without rescaling the others. ``real``, (rows, L), is true at tokens; padding is not cut.
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
    """Return the source of each position of shuffled rows, all (rows, L); positions that are not ``movable`` stay."""
    places = (~movable).long().argsort(dim=1, stable=True)
    taken = draws.masked_fill(~movable, float("inf")).argsort(dim=1, stable=True)
    return torch.empty_like(places).scatter_(1, places, taken)


def token_cutoff(draws: Tensor, real: Tensor, rate: float) -> Tensor:
    """Return the mask of token cutoff, (rows, L, 1), False at ⌊rate·n⌋ of a sentence's n tokens, by draws (rows, L)."""
    ranks = draws.masked_fill(~real, float("inf")).argsort(dim=1).argsort(dim=1)
    cut = (real.sum(dim=1, keepdim=True).double() * rate).floor()
    return (ranks >= cut).unsqueeze(-1)


def feature_cutoff(draws: Tensor, rate: float) -> Tensor:
    """Return the mask of feature cutoff, (rows, 1, d), False at ⌊rate·d⌋ of the d features, by draws (rows, d)."""
    ranks = draws.argsort(dim=1).argsort(dim=1)
    return (ranks >= int(draws.shape[1] * rate)).unsqueeze(1)


def element_dropout(draws: Tensor, rate: float) -> Tensor:
    """Return the mask of element-wise dropout, (rows, L, d), False at the elements to cut, by draws (rows, L, d)."""
    return draws >= rate
