"""Augmentations of a batch of sentences at the embedding layer: shuffling, cutoffs and dropout (ConSERT, §3.2).

Each is a pure function of uniform random numbers, so that the same numbers give the same view. Tokens are those that
are no padding; what is cut is set to zero and the rest keeps its scale.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast.backbone import Features


def joined_rows(first: Features, second: Features) -> dict[str, Any]:
    """Two batches of the same shape as one: the rows of the first, then those of the second.

    What is not of the rows is the first's.
    """
    rows = len(first["attention_mask"])
    return {
        key: torch.cat([value, second[key]]) if isinstance(value, Tensor) and value.shape[:1] == (rows,) else value
        for key, value in first.items()
    }


def shuffled_order(draws: Tensor, movable: Tensor) -> Tensor:
    """Where each position of a shuffled row takes its token from, (rows, L).

    Args:
        draws: (rows, L), uniform in [0, 1).
        movable: (rows, L), true at the positions that change places among each other; the others stay.
    """
    places = (~movable).long().argsort(dim=1, stable=True)
    taken = draws.masked_fill(~movable, float("inf")).argsort(dim=1, stable=True)
    return torch.empty_like(places).scatter_(1, places, taken)


def token_cutoff(draws: Tensor, real: Tensor, rate: float) -> Tensor:
    """What token cutoff keeps, (rows, L, 1), boolean: all but ⌊rate·n⌋ of a sentence's n tokens.

    Args:
        draws: (rows, L), uniform in [0, 1); the lowest are cut.
        real: (rows, L), true at the tokens that are no padding.
        rate: the share of tokens that is cut, in [0, 1).
    """
    ranks = draws.masked_fill(~real, float("inf")).argsort(dim=1).argsort(dim=1)
    cut = (real.sum(dim=1, keepdim=True).double() * rate).floor()
    return (ranks >= cut).unsqueeze(-1)


def feature_cutoff(draws: Tensor, rate: float) -> Tensor:
    """What feature cutoff keeps, (rows, 1, d), boolean: all but ⌊rate·d⌋ features, the same in the whole sentence.

    Args:
        draws: (rows, d), uniform in [0, 1); the lowest are cut.
        rate: the share of features that is cut, in [0, 1).
    """
    ranks = draws.argsort(dim=1).argsort(dim=1)
    return (ranks >= int(draws.shape[1] * rate)).unsqueeze(1)


def element_dropout(draws: Tensor, rate: float) -> Tensor:
    """What dropout keeps of each element by itself, (rows, L, d), boolean.

    Args:
        draws: (rows, L, d), uniform in [0, 1).
        rate: the probability that an element is set to zero, in [0, 1).
    """
    return draws >= rate
