"""Weights, gradients and the optimiser's state shared out over the processes, by torch's FSDP2.

The whole encoder is *one* unit: it is gathered when a step begins, stays whole for all of the step's passes, those of
an attack among them, and its gradient is summed and shared out once, when the step's backward pass is over. Units of a
layer each would have every pass of every attack gather every layer again, and processes whose attacks make different
numbers of passes would wait for one another for ever. What an objective has of its own (heads, momentum copies, queues)
is small, or has to be whole anyway, and stays whole on every process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import convert_outputs_to_fp32
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from holdfast.errors import UserError
from holdfast.launch import processes

_ASKED = "ACCELERATE_USE_FSDP"
_ON = ("1", "true", "yes", "y", "on", "t")
_CONFIG = "configs/accelerate/fsdp2.yaml"


@contextlib.contextmanager
def asked_for() -> Iterator[bool]:
    """Whether the launcher was told to shard the model (``accelerate launch`` with an FSDP configuration).

    Inside the block the libraries below are not told of it: `Sharded` does it, as a step of an adversarial objective
    needs it.

    Raises:
        UserError: the configuration asks for a way of sharding that is not there, or for DeepSpeed.
    """
    if _is_on("ACCELERATE_USE_DEEPSPEED"):
        raise UserError(
            "DeepSpeed owns the backward pass and the optimiser's step, which adversarial objectives need: launch with "
            f"an FSDP2 configuration, which shards the same ({_CONFIG}), or without one"
        )
    if not _is_on(_ASKED):
        yield False
        return
    _check_configuration()
    before = os.environ[_ASKED]
    os.environ[_ASKED] = "false"
    try:
        yield processes() > 1
    finally:
        os.environ[_ASKED] = before


def _check_configuration() -> None:
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise UserError(f"FSDP version 1 is not supported: set fsdp_version: 2 in the configuration, as in {_CONFIG}")
    policy = os.environ.get("FSDP_AUTO_WRAP_POLICY", "NO_WRAP")
    if policy.upper() != "NO_WRAP":
        raise UserError(
            f"fsdp_auto_wrap_policy: {policy} is not supported, since attacks run through the layers many times a "
            f"step: set it to NO_WRAP, as in {_CONFIG}"
        )
    for name, key in (("OFFLOAD_PARAMS", "offload_params"), ("ACTIVATION_CHECKPOINTING", "activation_checkpointing")):
        if _is_on(f"FSDP_{name}"):
            raise UserError(f"fsdp_{key} is not supported: set it to false in the configuration, as in {_CONFIG}")


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").lower() in _ON


class Sharded(nn.Module):
    """A model whose parameters are shared out over all processes of the run, in place of a data-parallel wrapper.

    Args:
        model: the model; its parameters become shards (``DTensor``) between steps. Every process must hold the same.
        plain: a copy of it, which `plain` fills and returns.

    Attributes:
        module: the model.
    """

    def __init__(self, model: nn.Module, plain: nn.Module) -> None:
        super().__init__()
        device = next(model.parameters()).device
        self._plain = (plain,)  # not a submodule: what is one of the objective's is trained and saved with it
        self.module: Any = fully_shard(model, mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
        # One unit needs no hooks to part with it in between: `whole` does that.
        self.module.set_reshard_after_backward(False)

    def forward(self, *given: Any, **named: Any) -> Any:
        """As a data-parallel wrapper: the model's outputs, in fp32 whatever autocast computed them in."""
        return convert_outputs_to_fp32(self.module)(*given, **named)

    @contextlib.contextmanager
    def whole(self, *, reduce: bool = True) -> Iterator[None]:
        """The parameters whole, plain tensors, for the block; all processes enter and leave it together.

        Args:
            reduce: whether a backward pass inside the block shares out the gradient; else it is kept for the next one.
        """
        self.module.set_requires_gradient_sync(reduce)
        self.module.unshard()
        try:
            yield
        finally:
            self.module.reshard()

    def plain(self, device: torch.device | str = "cpu") -> nn.Module:
        """The model as it is now, as a model of its own; all processes must call it together.

        It is the same object at every call, on the device and of the weights of the last.
        """
        (plain,) = self._plain
        plain.to(device)
        own = (*plain.parameters(), *plain.buffers())
        with torch.no_grad():
            for mine, shard in zip(own, (*self.module.parameters(), *self.module.buffers()), strict=True):
                mine.copy_(_full(shard))
        return plain.train(self.module.training)


def split_groups(optimizer: torch.optim.Optimizer) -> None:
    """Part shards from plain tensors in the optimiser's groups: no fused step takes both at once."""
    groups = []
    for group in optimizer.param_groups:
        for kind in (True, False):
            parameters = [p for p in group["params"] if isinstance(p, DTensor) is kind]
            if parameters:
                groups.append({**group, "params": parameters})
    optimizer.param_groups[:] = groups


def clip_norm(parameters: list[nn.Parameter], max_norm: float) -> Tensor:
    """Scale the gradients so that their norm, over all shards and plain tensors together, is at most ``max_norm``.

    All processes must call it together. Plain gradients must be the same on each.

    Returns:
        The norm before.
    """
    sharded = [p.grad.to_local() for p in parameters if isinstance(p.grad, DTensor)]
    plain = [p.grad for p in parameters if p.grad is not None and not isinstance(p.grad, DTensor)]
    device = parameters[0].device
    square = sum((g.double().square().sum() for g in sharded), torch.zeros((), dtype=torch.double, device=device))
    dist.all_reduce(square)
    norm = sum((g.double().square().sum() for g in plain), square).sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_ has it
    for gradient in (*sharded, *plain):
        gradient.mul_(scale.to(gradient.dtype))
    return norm


def whole_state(optimizer: Any) -> dict[str, Any]:
    """An optimiser's state with whole tensors, as it would be without sharding; all processes call it together."""
    state: dict[str, Any] = optimizer.state_dict()
    held = {
        number: {name: _full(value) if isinstance(value, Tensor) else value for name, value in of.items()}
        for number, of in state["state"].items()
    }
    return {**state, "state": held}


def load_whole_state(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Give an optimiser of shards the state that `whole_state` returned."""
    optimizer.load_state_dict(state)
    for parameter, held in optimizer.state.items():
        if isinstance(parameter, DTensor):
            for name, value in held.items():
                if isinstance(value, Tensor) and value.ndim:
                    # Every process has read the same file: none needs to be sent its part.
                    held[name] = distribute_tensor(
                        value, parameter.device_mesh, parameter.placements, src_data_rank=None
                    )


def _full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
