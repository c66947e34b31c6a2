"""BERT-flow: an invertible network from sentence vectors to a standard normal, and its likelihood.

Li, Zhou, He, Wang, Yang and Li. On the Sentence Embeddings from Pre-trained Language Models. EMNLP 2020. The network
is Glow (Kingma and Dhariwal, 2018) on vectors in place of images, as in the authors' code: a *step* is an activation
normalisation, the reversal of the coordinates and a coupling layer; after each *level* of steps except the last, half
of the coordinates are final and the other half enters the next level. All parts of the map from x to z are invertible
with a known Jacobian determinant, so log p(x) = log N(z; 0, I) + log |det ∂z/∂x| is exact.

The authors' code has 3 levels of 3 steps, hidden layers of width 32, and additive couplings.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Coupling = Literal["additive", "affine"]

# Scales are learnt as exp(3·s), which makes their steps three times as large (Glow's code).
LOG_SCALE_FACTOR = 3.0
# An affine coupling's scale is sigmoid(raw + 2): near 1 where the last layer is still 0 (Glow's code).
GATE_SHIFT = 2.0
_INITIAL_WEIGHT_STD = 0.05
# A coordinate with a very small variance is not scaled to variance 1: the scale is at most 1000 times the typical one
# (ours).
_SMALLEST_SHARE = 1e-3


class ActNorm(nn.Module):
    """Activation normalisation, y = (x + bias)·exp(3·log_scale), of ``width`` coordinates.

    The first batch initialises both parameters so that its outputs have mean 0 and variance 1.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.log_scale = nn.Parameter(torch.zeros(width))
        self.initialised = False

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, width) to (B, width)."""
        if not self.initialised:
            self._initialise(x)
        return (x + self.bias) * self.scale

    def inverse(self, y: Tensor) -> Tensor:
        """Return the input for which `forward` returns ``y``."""
        return y / self.scale - self.bias

    @property
    def scale(self) -> Tensor:
        """The scale, (width,)."""
        return torch.exp(LOG_SCALE_FACTOR * self.log_scale)

    @property
    def log_determinant(self) -> Tensor:
        """The log |det| of the Jacobian, the same for every x."""
        return LOG_SCALE_FACTOR * self.log_scale.sum()

    @torch.no_grad()
    def _initialise(self, x: Tensor) -> None:
        mean, std = x.mean(dim=0), x.std(dim=0, correction=0)
        floor = _SMALLEST_SHARE * std.square().mean().sqrt()
        self.bias.copy_(-mean)
        self.log_scale.copy_(-torch.log(std.clamp_min(floor).clamp_min(1e-6)) / LOG_SCALE_FACTOR)
        self.initialised = True


class CouplingNet(nn.Module):
    """Two hidden layers (linear, normalised, ReLU) and an output layer initialised to 0: the initial shift is 0."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Linear(inputs, width, bias=False), ActNorm(width)
        self.second, self.second_norm = nn.Linear(width, width, bias=False), ActNorm(width)
        self.last = nn.Linear(width, outputs)
        self.last_log_scale = nn.Parameter(torch.zeros(outputs))
        for layer in (self.first, self.second):
            nn.init.normal_(layer.weight, std=_INITIAL_WEIGHT_STD)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs) to (B, outputs)."""
        hidden = torch.relu(self.first_norm(self.first(x)))
        hidden = torch.relu(self.second_norm(self.second(hidden)))
        out: Tensor = self.last(hidden) * self.last_scale
        return out

    @property
    def last_scale(self) -> Tensor:
        """The scale of the output layer, (outputs,)."""
        return torch.exp(LOG_SCALE_FACTOR * self.last_log_scale)


class Step(nn.Module):
    """Activation normalisation, reversal and coupling: the second half is transformed as a function of the first.

    Args:
        size: number of coordinates, at least 2.
        width: width of the coupling's hidden layers.
        coupling: ``"additive"``: y₂ = x₂ + t(x₁); ``"affine"``: y₂ = (x₂ + t(x₁))·sigmoid(s(x₁) + 2).
    """

    def __init__(self, size: int, width: int, coupling: Coupling) -> None:
        super().__init__()
        self.size, self.kept, self.coupling = size, size // 2, coupling
        self.norm = ActNorm(size)
        changed = size - self.kept
        self.net = CouplingNet(self.kept, width, changed if coupling == "additive" else 2 * changed)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, size) to (B, size); also return log |det| of the Jacobian at each row, (B,)."""
        y = self.norm(x).flip(-1)
        kept, changed = y[:, : self.kept], y[:, self.kept :]
        shift, raw = self._shift_and_raw(kept)
        changed = changed + shift
        log_determinant = self.norm.log_determinant.expand(len(x))
        if raw is not None:
            changed = changed * torch.sigmoid(raw + GATE_SHIFT)
            log_determinant = log_determinant + F.logsigmoid(raw + GATE_SHIFT).sum(dim=-1)
        return torch.cat([kept, changed], dim=-1), log_determinant

    def inverse(self, z: Tensor) -> Tensor:
        """Return the input for which `forward` returns ``z``."""
        kept, changed = z[:, : self.kept], z[:, self.kept :]
        shift, raw = self._shift_and_raw(kept)
        if raw is not None:
            changed = changed / torch.sigmoid(raw + GATE_SHIFT)
        return self.norm.inverse(torch.cat([kept, changed - shift], dim=-1).flip(-1))

    def _shift_and_raw(self, kept: Tensor) -> tuple[Tensor, Tensor | None]:
        out = self.net(kept)
        if self.coupling == "additive":
            return out, None
        shift, raw = out.chunk(2, dim=-1)
        return shift, raw


class Flow(nn.Module):
    """The flow network; its first batch initialises the normalisations.

    Args:
        dimensions: d, the dimension of a sentence vector.
        levels: number of groups of steps; each group after the first has half of the coordinates of the one before.
        depth: number of steps in a level.
        width: width of the couplings' hidden layers.
        coupling: see `Step`.

    Raises:
        ValueError: a number is below 1, or there are too few dimensions for the levels.
    """

    def __init__(
        self, dimensions: int, *, levels: int = 3, depth: int = 3, width: int = 32, coupling: Coupling = "additive"
    ) -> None:
        super().__init__()
        if min(levels, depth, width) < 1:
            raise ValueError("levels, depth and width must be at least 1")
        if dimensions >> (levels - 1) < 2:
            raise ValueError(f"vectors of {dimensions} dimensions cannot be halved for {levels} levels")
        self.dimensions, self.width = dimensions, width
        self.sizes = [dimensions >> level for level in range(levels)]
        self.levels = nn.ModuleList(
            nn.ModuleList(Step(size, width, coupling) for _ in range(depth)) for size in self.sizes
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return z (B, d) of x (B, d), and log |det ∂z/∂x|, (B,); z has the coordinates of earlier levels first."""
        done: list[Tensor] = []
        total = x.new_zeros(len(x))
        for number, steps in enumerate(self.levels):
            if number:
                half = x.shape[1] // 2
                done.append(x[:, half:])
                x = x[:, :half]
            for step in _steps(steps):
                x, log_determinant = step(x)
                total = total + log_determinant
        return torch.cat([*done, x], dim=-1), total

    def inverse(self, z: Tensor) -> Tensor:
        """Return the input, (B, d), for which `forward` returns ``z``."""
        start = self.dimensions - self.sizes[-1]
        x, rest = z[:, start:], z[:, :start]
        for number, steps in reversed(list(enumerate(self.levels))):
            for step in reversed(_steps(steps)):
                x = step.inverse(x)
            if number:
                start = rest.shape[1] - (self.sizes[number - 1] - x.shape[1])
                x, rest = torch.cat([x, rest[:, start:]], dim=-1), rest[:, :start]
        return x

    def log_probability(self, x: Tensor) -> Tensor:
        """Return log p(x) in nats, (B,)."""
        z, log_determinant = self(x)
        normal = -0.5 * (z.square() + math.log(2 * math.pi)).sum(dim=-1)
        total: Tensor = normal + log_determinant
        return total


def _steps(level: nn.Module) -> list[Step]:
    return [step for step in level.children() if isinstance(step, Step)]
