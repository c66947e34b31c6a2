"""Training on several processes: how many there are, what they share, and how they part.

Everything here does nothing, or returns what it was given, where there is one process. Losses are means over a
process's own rows and the trainer averages gradients over processes, so the backward passes below *sum* what every
process's loss says: the average is then the gradient of the mean over the joined batch.
"""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from torch import Tensor


def processes() -> int:
    """How many processes train together; the launcher (torchrun, accelerate) says so."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def joined() -> bool:
    """Whether this process is in a group with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather_keys(keys: Tensor) -> tuple[Tensor, int]:
    """Join the keys of all processes, (W·B, d), with gradient to each of them, and this process's first row.

    Every process must hold the same number of keys.
    """
    if not joined():
        return keys, 0
    parts: Tensor = _Gather.apply(keys)  # type: ignore[no-untyped-call]
    return parts, dist.get_rank() * len(keys)


def sum_over_processes(tensor: Tensor) -> Tensor:
    """The sum of a tensor over all processes, with gradient to each of them."""
    if not joined():
        return tensor
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


@torch.no_grad()
def mean_over_processes(tensor: Tensor) -> Tensor:
    """The mean of a tensor over all processes, detached."""
    return sum_over_processes(tensor.detach()) / (dist.get_world_size() if joined() else 1)


class _Gather(torch.autograd.Function):
    """All-gather whose backward sums what every process's loss says about my keys."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, keys: Tensor) -> Tensor:
        parts = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, keys.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> Tensor:
        return _summed(grads[0]).chunk(dist.get_world_size())[dist.get_rank()]


class _Sum(torch.autograd.Function):
    """All-reduce whose backward is one too: every process's loss sees every process's part of the sum."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, tensor: Tensor) -> Tensor:
        return _summed(tensor)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> Tensor:
        return _summed(grads[0])


def _summed(tensor: Tensor) -> Tensor:
    total = tensor.contiguous().clone()
    dist.all_reduce(total)
    return total


def leave_process_group() -> None:
    """Wait for the other processes and end the process group.

    gloo's threads let go of the last collective's tensors a moment after it is done, for which they need the
    interpreter. If it is ending by then, the process is aborted ("terminate called without an active exception", seen
    in one of twenty runs with torch 2.13). Hence the barrier, whose work holds no tensors, and the pause.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)
