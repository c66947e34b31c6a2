"""The order of a training corpus: a new permutation per epoch, which depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import BatchSampler, Sampler

_AT_ONCE = 1 << 16


class EpochOrder(Sampler[int]):
    """Row numbers 0…n−1 in an order drawn from (seed, epoch).

    torch's random sampler draws the orders of all epochs from one generator, so that the order of epoch 2 depends on
    having drawn that of epoch 1: a run resumed in epoch 2 would see other batches.

    Args:
        rows: number of rows n.
        seed: seed of the run.
    """

    def __init__(self, rows: int, seed: int) -> None:
        self.rows, self.seed, self.epoch = rows, seed, 0

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.rows, generator=generator)
        for start in range(0, self.rows, _AT_ONCE):  # all of them as Python ints would take four times the memory
            yield from order[start : start + _AT_ONCE].tolist()

    def __len__(self) -> int:
        return self.rows


def epoch_batches(rows: int, batch_size: int, seed: int) -> BatchSampler:
    """Return a sampler of batches of ``batch_size`` row numbers; an incomplete last batch is dropped."""
    return BatchSampler(EpochOrder(rows, seed), batch_size, drop_last=True)
