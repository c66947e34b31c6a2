"""Sharding of weights, gradients and optimiser state over the processes, with torch's FSDP2.

The whole encoder is *one* FSDP unit: it is gathered at the beginning of a step, stays whole for all passes of the step,
including those of an attack, and its gradient is reduced and scattered once, after the backward pass. With one unit per
layer, each pass of each attack would gather every layer again, and processes whose attacks make different numbers of
passes would deadlock. An objective's own tensors (heads, momentum copies, queues) are small or must be whole anyway,
and stay whole on every process.
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

_FSDP_VARIABLE = "ACCELERATE_USE_FSDP"
_TRUE_WORDS = ("1", "true", "yes", "y", "on", "t")
_CONFIG = "configs/accelerate/fsdp2.yaml"


@contextlib.contextmanager
def sharding_requested() -> Iterator[bool]:
    """Yield True if the launcher asks for sharding (``accelerate launch`` with an FSDP configuration).

    Inside the block the setting is hidden from accelerate and transformers: `Sharded` does the sharding, in the way
    that a step of an adversarial objective needs.

    Raises:
        UserError: the configuration asks for an unsupported kind of sharding, or for DeepSpeed.
    """
    if _is_on("ACCELERATE_USE_DEEPSPEED"):
        raise UserError(
            "DeepSpeed owns the backward pass and the optimiser's step, which adversarial objectives need: launch with "
            f"an FSDP2 configuration, which shards the same ({_CONFIG}), or without one"
        )
    if not _is_on(_FSDP_VARIABLE):
        yield False
        return
    _check_configuration()
    before = os.environ[_FSDP_VARIABLE]
    os.environ[_FSDP_VARIABLE] = "false"
    try:
        yield processes() > 1
    finally:
        os.environ[_FSDP_VARIABLE] = before


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
    return os.environ.get(name, "").lower() in _TRUE_WORDS


class Sharded(nn.Module):
    """A model whose parameters are sharded over all processes; replaces a data-parallel wrapper.

    Args:
        model: the model; its parameters become shards (``DTensor``) between steps. All processes must hold the same.
        plain: a copy of the model, filled and returned by the method `plain`.

    Attributes:
        module: the model.
    """

    def __init__(self, model: nn.Module, plain: nn.Module) -> None:
        super().__init__()
        device = next(model.parameters()).device
        self._plain = (plain,)  # not a submodule: submodules of the objective are trained and saved with it
        self.module: Any = fully_shard(model, mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
        # No resharding after each backward pass: `whole` reshards at its end.
        self.module.set_reshard_after_backward(False)

    def forward(self, *given: Any, **named: Any) -> Any:
        """Return the model's outputs, converted to fp32 as in a data-parallel wrapper."""
        return convert_outputs_to_fp32(self.module)(*given, **named)

    @contextlib.contextmanager
    def whole(self, *, reduce: bool = True) -> Iterator[None]:
        """Gather the parameters as plain tensors for the block; all processes must enter and leave it together.

        Args:
            reduce: whether a backward pass in the block reduces the gradient; else it is kept for the next one.
        """
        self.module.set_requires_gradient_sync(reduce)
        self.module.unshard()
        try:
            yield
        finally:
            self.module.reshard()

    def plain(self, device: torch.device | str = "cpu") -> nn.Module:
        """Return a copy of the model with the current weights, unsharded; all processes must call it together.

        Each call returns the same object, with the weights and the device of that call.
        """
        (plain,) = self._plain
        plain.to(device)
        own = (*plain.parameters(), *plain.buffers())
        with torch.no_grad():
            for mine, shard in zip(own, (*self.module.parameters(), *self.module.buffers()), strict=True):
                mine.copy_(_full(shard))
        return plain.train(self.module.training)


def split_groups(optimizer: torch.optim.Optimizer) -> None:
    """Split the optimiser's groups into shards and plain tensors: a fused step cannot take both at once."""
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
        The norm before clipping.
    """
    sharded = [p.grad.to_local() for p in parameters if isinstance(p.grad, DTensor)]
    plain = [p.grad for p in parameters if p.grad is not None and not isinstance(p.grad, DTensor)]
    device = parameters[0].device
    square = sum((g.double().square().sum() for g in sharded), torch.zeros((), dtype=torch.double, device=device))
    dist.all_reduce(square)
    norm = sum((g.double().square().sum() for g in plain), square).sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)  # as in torch.nn.utils.clip_grad_norm_
    for gradient in (*sharded, *plain):
        gradient.mul_(scale.to(gradient.dtype))
    return norm


def whole_state(optimizer: Any) -> dict[str, Any]:
    """Return an optimiser's state with whole tensors, as without sharding; all processes must call it together."""
    state: dict[str, Any] = optimizer.state_dict()
    held = {
        number: {name: _full(value) if isinstance(value, Tensor) else value for name, value in of.items()}
        for number, of in state["state"].items()
    }
    return {**state, "state": held}


def load_whole_state(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Load a state returned by `whole_state` into an optimiser of shards."""
    optimizer.load_state_dict(state)
    for parameter, held in optimizer.state.items():
        if isinstance(parameter, DTensor):
            for name, value in held.items():
                if isinstance(value, Tensor) and value.ndim:
                    # Every process has read the same file, so nothing needs to be sent.
                    held[name] = distribute_tensor(
                        value, parameter.device_mesh, parameter.placements, src_data_rank=None
                    )


def _full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
