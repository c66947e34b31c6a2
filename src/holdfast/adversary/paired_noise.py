"""Random numbers of a method's own, beside which those of the training stay what they are without the method."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from holdfast.devices import random_numbers_kept
from holdfast.distributed import joined


class PairedNoise(nn.Module):
    """A sequence of seeds, each a function of the seed of the training, of the number of the draw and of the process.

    What is drawn from them leaves the random state of the training unchanged: a training with an attack and one without
    it have the same dropout masks. The place in the sequence is saved in checkpoints.

    Attributes:
        place: (2,), the seed of the global generator when the module was made, and the number of draws. It stays on the
            CPU, so that no device is waited for, and is no buffer therefore.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = torch.tensor([torch.initial_seed() % 2**62, 0])

    def get_extra_state(self) -> Tensor:
        """Return the place in the sequence, for checkpoints."""
        return self.place.clone()

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the place in the sequence."""
        self.place = state.cpu()

    def generator(self, *, move: bool = True) -> torch.Generator:
        """Return a new generator of the next seed, on the CPU; without ``move`` the place in the sequence stays.

        What it draws is the same for a model on any device.
        """
        return torch.Generator().manual_seed(self._seed(move))

    @contextlib.contextmanager
    def in_place(self, device: torch.device, *, move: bool = True) -> Iterator[None]:
        """Draw all random numbers inside the block, such as dropout masks, from the next seed."""
        seed = self._seed(move)
        with random_numbers_kept(device):
            torch.manual_seed(seed)
            yield

    def _seed(self, move: bool) -> int:
        rank = dist.get_rank() if joined() else 0
        seed = np.random.SeedSequence([*self.place.tolist(), rank]).generate_state(1, np.uint64)
        if move:
            self.place = self.place + torch.tensor([0, 1])  # a new tensor: the old one may be kept, to be restored
        return int(seed[0]) % 2**63
