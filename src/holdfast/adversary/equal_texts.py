"""Which texts of a batch are equal, told by what the encoder reads of them: their token ids.

Equal texts in a contrastive batch are false negatives. Rows are compared by a hash of their real tokens, so that the
answer depends neither on the padding nor on the width of the batch, is the same on every process, can be kept beside
old keys, and costs no wait for a GPU.
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

# SplitMix64 (Steele, Lea and Flood 2014), whose constants are written as signed numbers of 64 bits.
_INCREMENT, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def text_hashes(*columns: Features) -> Tensor:
    """Hash the texts of each row, (B, columns), 64-bit integers.

    The hash of a text is a sum over its real tokens of a pseudo-random number for each pair of token id and place, the
    first real token's place being 1. Two different texts have the same hash with a probability of about 2⁻⁶⁴.

    Args:
        columns: the features of the sentences, and of their positives where the data has a second column.
    """
    return torch.stack([_hashes(features["input_ids"], features["attention_mask"]) for features in columns], dim=1)


def share_a_text(first: Tensor, second: Tensor) -> Tensor:
    """Tell which rows of two batches have a text in common, (B, N).

    Args:
        first: hashes of the texts of each row, (B, columns).
        second: hashes of others, (N, columns).
    """
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
    """Shift to the right with zeros from the left, which torch's shift of signed numbers does not do."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)
