"""A trained flow as a chain of sentence-transformers' own `Dense` modules, usable without holdfast.

`Dense` is a linear map and an activation, and can add its input to its output (``use_residual``). This is sufficient.
Between modules the state is (x, h₁, h₂): the d coordinates, and slots for a coupling's two hidden layers. A hidden
layer is ReLU(linear), *added* to a state in which its slot is 0; the rows of the other coordinates are zero, so these
do not change. The last layer of an additive coupling, the clearing of the slots and the next step's normalisation and
reversal are all linear and form one module. An affine coupling's (x₂ + t)·sigmoid(s + 2) is a gated linear unit
(``torch.nn.GLU``: a·sigmoid(b)); coordinates that are not scaled have the constant b = 40, a gate of 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor, nn

from holdfast.baselines.flow import GATE_SHIFT, ActNorm, Flow, Step

# sigmoid(40) is 1 in fp32 and in bf16.
_OPEN_GATE = 40.0


@dataclass(frozen=True)
class _Affine:
    """The map x ↦ weight·x + bias, in float64 to keep the precision of compositions."""

    weight: Tensor
    bias: Tensor

    def after(self, first: _Affine) -> _Affine:
        return _Affine(self.weight @ first.weight, self.weight @ first.bias + self.bias)

    def dense(self, activation: nn.Module, *, residual: bool = False) -> Dense:
        outputs, inputs = self.weight.shape
        return Dense(
            inputs,
            outputs,
            activation_function=activation,
            init_weight=self.weight.float().contiguous(),
            init_bias=self.bias.float(),
            use_residual=residual,
        )


@torch.no_grad()
def native_modules(flow: Flow) -> list[Dense]:
    """Return modules that, applied in order, map a sentence vector to the z of a trained flow."""
    steps = [step for level in flow.levels for step in level.children() if isinstance(step, Step)]
    end_of_first = flow.dimensions + flow.width
    first, second = slice(flow.dimensions, end_of_first), slice(end_of_first, _state(flow))
    modules = [_entry(flow, steps[0]).dense(nn.Identity())]
    for number, step in enumerate(steps):
        following = _normalise(flow, steps[number + 1]) if number + 1 < len(steps) else _exit(flow)
        modules += [
            _hidden(flow, step.net.first, step.net.first_norm, first, slice(0, step.kept)),
            _hidden(flow, step.net.second, step.net.second_norm, second, first),
        ]
        out = _coupled(flow, step)
        if step.coupling == "additive":
            modules.append(following.after(out).dense(nn.Identity()))
        else:
            modules += [out.dense(nn.GLU()), following.dense(nn.Identity())]
    return modules


def _entry(flow: Flow, step: Step) -> _Affine:
    """Return the map from d coordinates to the state: slots for hidden layers, and the first step's normalisation."""
    room = torch.eye(_state(flow), flow.dimensions, dtype=torch.float64)
    return _normalise(flow, step).after(_Affine(room, torch.zeros(_state(flow), dtype=torch.float64)))


def _exit(flow: Flow) -> _Affine:
    """Return the map from the state to z: coordinates of earlier levels are last in the state, and first in z."""
    columns = [column for start, end in zip(flow.sizes[1:], flow.sizes, strict=False) for column in range(start, end)]
    columns += range(flow.sizes[-1])
    weight = torch.eye(_state(flow), dtype=torch.float64)[columns]
    return _Affine(weight, torch.zeros(flow.dimensions, dtype=torch.float64))


def _normalise(flow: Flow, step: Step) -> _Affine:
    """Return a step's normalisation and reversal of its coordinates as a map between states."""
    weight, bias = torch.eye(_state(flow), dtype=torch.float64), torch.zeros(_state(flow), dtype=torch.float64)
    scale, size = step.norm.scale.double().cpu(), step.size
    weight[:size, :size] = torch.diag(scale).flip(0)
    bias[:size] = (scale * step.norm.bias.double().cpu()).flip(0)
    return _Affine(weight, bias)


def _hidden(flow: Flow, linear: nn.Linear, norm: ActNorm, rows: slice, columns: slice) -> Dense:
    """Return state + ReLU(…), which changes only ``rows``, where the state was 0."""
    weight = torch.zeros(_state(flow), _state(flow), dtype=torch.float64)
    bias = torch.zeros(_state(flow), dtype=torch.float64)
    scale = norm.scale.double().cpu()
    weight[rows, columns] = scale[:, None] * linear.weight.double().cpu()
    bias[rows] = scale * norm.bias.double().cpu()
    return _Affine(weight, bias).dense(nn.ReLU(), residual=True)


def _coupled(flow: Flow, step: Step) -> _Affine:
    """Return the map that shifts the second half and clears the slots; for an affine coupling, with the gates below."""
    room, state = slice(flow.dimensions + flow.width, _state(flow)), _state(flow)
    weight, bias = torch.eye(state, dtype=torch.float64), torch.zeros(state, dtype=torch.float64)
    weight[flow.dimensions :] = 0.0
    scale = step.net.last_scale.double().cpu()
    last, last_bias = scale[:, None] * step.net.last.weight.double().cpu(), scale * step.net.last.bias.double().cpu()
    changed, width = slice(step.kept, step.size), step.size - step.kept
    weight[changed, room] = last[:width]
    bias[changed] = last_bias[:width]
    if step.coupling == "additive":
        return _Affine(weight, bias)
    gates, gate_bias = torch.zeros_like(weight), torch.full_like(bias, _OPEN_GATE)
    gates[changed, room] = last[width:]
    gate_bias[changed] = last_bias[width:] + GATE_SHIFT
    return _Affine(torch.cat([weight, gates]), torch.cat([bias, gate_bias]))


def _state(flow: Flow) -> int:
    return flow.dimensions + 2 * flow.width
