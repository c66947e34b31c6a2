"""Detection of duplicate texts in a batch, by their token ids.

Equal texts in a contrastive batch are false negatives. Rows are compared by a hash of their real tokens. The result
does not depend on the padding, is the same on every process, can be stored with old keys, and needs no synchronisation
with a GPU.
"""

from __future__ import annotations

import functools
import operator
from typing import Literal

import torch
from torch import Tensor

from holdfast.backbone import Features

Duplicates = Literal["mask", "keep"]

NO_TEXT = 0
"""The hash of a key that belongs to no text."""

# The constants of SplitMix64 (Steele, Lea and Flood 2014), as signed 64-bit numbers.
_INCREMENT, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def text_hashes(*columns: Features) -> Tensor:
    """Hash the texts of each row, (B, columns), 64-bit integers.

    The hash of a text is the sum of a pseudo-random number per real token, which depends on its token id and position
    (from 1). Two different texts have the same hash with a probability of about 2⁻⁶⁴. A second column holds positives.
    """
    return torch.stack([_hashes(features["input_ids"], features["attention_mask"]) for features in columns], dim=1)


def share_a_text(first: Tensor, second: Tensor) -> Tensor:
    """Return which rows have a text in common, (B, N), boolean, by the hashes (B, columns) and (N, columns)."""
    pairs = [(one, other) for one in first.unbind(dim=1) for other in second.unbind(dim=1)]
    return functools.reduce(operator.or_, (one[:, None] == other[None, :] for one, other in pairs))


def _hashes(ids: Tensor, mask: Tensor) -> Tensor:
    real = mask.long()
    places = real.cumsum(dim=1)
    return (_mixed((places << 32) + ids.long()) * real).sum(dim=1)


def _mixed(numbers: Tensor) -> Tensor:
    numbers = numbers + _INCREMENT
    numbers = (numbers ^ _shifted(numbers, 30)) * _FIRST
    numbers = (numbers ^ _shifted(numbers, 27)) * _SECOND
    return numbers ^ _shifted(numbers, 31)


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros; torch's shift of signed numbers fills with the sign bit."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)
