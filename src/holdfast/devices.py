"""Names and random states of devices of any kind (CUDA, XPU, MPS …)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def device_name(device: str) -> str:
    """Return the name of a device, such as "NVIDIA A100"; if it is unknown, its torch name."""
    import torch

    kind = torch.device(device).type
    named = None if kind == "cpu" else getattr(torch.get_device_module(kind), "get_device_name", None)
    return device if named is None else str(named(device))


def random_numbers_kept(device: torch.device) -> AbstractContextManager[None]:
    """Return a context manager that restores the random states of the CPU and of ``device``."""
    import torch

    return torch.random.fork_rng(devices=[] if device.type == "cpu" else [device], device_type=device.type)


def random_states(device: torch.device) -> list[Tensor]:
    """Return the random states that an operation on ``device`` may use: the CPU's and, if it has one, its own.

    They are the argument of :func:`set_random_states`.
    """
    import torch

    states = [torch.random.get_rng_state()]
    return states if device.type == "cpu" else [*states, torch.get_device_module(device).get_rng_state(device)]


def set_random_states(device: torch.device, states: Sequence[Tensor]) -> None:
    """Set the random states returned by :func:`random_states`."""
    import torch

    torch.random.set_rng_state(states[0])
    for state in states[1:]:
        torch.get_device_module(device).set_rng_state(state, device)
