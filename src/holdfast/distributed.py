"""Work on several processes: how many there are, what they share, how they meet and how they part.

Everything here does nothing, or returns what it was given, where there is one process. Losses are means over a
process's own rows and the trainer averages gradients over processes, so the backward passes below *sum* what every
process's loss says: the average is then the gradient of the mean over the joined batch.
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

_LETTING_GO = 0.2
"""Seconds: see `leave_process_group`."""


def own_device() -> str | None:
    """The GPU of this process of several; None where there is one process, or no GPU: the library's own choice."""
    kind = torch.accelerator.current_accelerator(check_available=True) if processes() > 1 else None
    return None if kind is None else f"{kind.type}:{number_here() % torch.accelerator.device_count()}"


@contextlib.contextmanager
def meeting() -> Iterator[None]:
    """The processes that a launcher has started, in one group for the block; nothing where there is one.

    Each leaves when it is done: the last thing they do together must be a barrier.
    """
    if processes() == 1 or dist.is_initialized():
        yield
        return
    dist.init_process_group("gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()
        time.sleep(_LETTING_GO)


def joined() -> bool:
    """Whether this process is in a group with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def found_once_here(name: str, find: Callable[[], str]) -> str:
    """What ``find`` returns, some text, in the first process of this machine; the others of it wait for that.

    They wait for as long as it takes, which a collective operation would not let them. All must call it together.

    Args:
        name: of what is found.
        find: called in one process of each machine; in all where their launcher does not tell which is the first.

    Raises:
        UserError: in the others, where it failed in the first.
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
    """Whether all processes say the same."""
    if not joined():
        return True
    said: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(said, text)
    return len(set(said)) == 1


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
    time.sleep(_LETTING_GO)
