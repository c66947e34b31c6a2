"""Work on several processes: process groups, gathering and reduction with gradient, agreement.

With one process every function does nothing or returns its argument. Losses are means over a process's own rows and the
trainer averages gradients over processes, so the backward passes below *sum* the gradients of all processes' losses:
the average is then the gradient of the mean over the joined batch.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from holdfast.errors import UserError
from holdfast.launch import local_rank, number_here, processes

_RELEASE_SECONDS = 0.2
"""Seconds to wait after the end of a process group; see `leave_process_group`."""


def own_device() -> str | None:
    """Return the GPU of this process among several; None with one process or without a GPU (library default)."""
    kind = torch.accelerator.current_accelerator(check_available=True) if processes() > 1 else None
    return None if kind is None else f"{kind.type}:{number_here() % torch.accelerator.device_count()}"


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """Join the processes of a launcher in one group for the block; no effect with one process.

    Each process leaves when it is done: their last collective operation must be a barrier.
    """
    if processes() == 1 or dist.is_initialized():
        yield
        return
    dist.init_process_group("gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()
        time.sleep(_RELEASE_SECONDS)


def joined() -> bool:
    """Return True if this process is in a group with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def found_once_here(name: str, find: Callable[[], str]) -> str:
    """Call ``find`` in the first process of this machine and return its text in all processes of the machine.

    Without local ranks from the launcher all call it. The others wait without the time limit of a collective operation.
    All must call this function together.

    Raises:
        UserError: in the other processes, if ``find`` failed in the first.
    """
    local = local_rank()
    if not joined() or local is None:
        return find()
    store = dist.distributed_c10d._get_default_store()
    call = store.add(f"holdfast/{name}/calls of {dist.get_rank()}", 1)
    key = f"holdfast/{name}/{os.environ.get('GROUP_RANK') or platform.node()}/{call}"
    if local == 0:
        try:
            store.set(key, find())
        except BaseException:
            store.set(key, "")
            raise
    store.wait([key], timedelta(days=7))
    found = str(store.get(key).decode())
    if not found:
        raise UserError(f"the first process of {platform.node()} has found no {name}")
    return found


def agree(text: str) -> bool:
    """Return True if ``text`` is the same in all processes."""
    if not joined():
        return True
    texts: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(texts, text)
    return len(set(texts)) == 1


def gather_keys(keys: Tensor) -> tuple[Tensor, int]:
    """Return the keys of all processes, (W·B, d), with gradient to each, and the index of this process's first row.

    Every process must hold the same number of keys.
    """
    if not joined():
        return keys, 0
    parts: Tensor = _Gather.apply(keys)  # type: ignore[no-untyped-call]
    return parts, dist.get_rank() * len(keys)


def sum_over_processes(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes, with gradient to each of them."""
    if not joined():
        return tensor
    total: Tensor = _Sum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


@torch.no_grad()
def mean_over_processes(tensor: Tensor) -> Tensor:
    """Return the mean of a tensor over all processes, detached."""
    return sum_over_processes(tensor.detach()) / (dist.get_world_size() if joined() else 1)


class _Gather(torch.autograd.Function):
    """All-gather whose backward sums the gradients of all processes' losses for this process's keys."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, keys: Tensor) -> Tensor:
        parts = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, keys.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> Tensor:
        return _summed(grads[0]).chunk(dist.get_world_size())[dist.get_rank()]


class _Sum(torch.autograd.Function):
    """All-reduce whose backward is an all-reduce too: each process's loss depends on all parts of the sum."""

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

    gloo's threads release the tensors of the last collective shortly after it is done, and need the interpreter for
    that. If the interpreter is already exiting, the process is aborted ("terminate called without an active exception",
    seen in one of twenty runs with torch 2.13). Therefore there are a barrier, which holds no tensors, and a pause.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(_RELEASE_SECONDS)
