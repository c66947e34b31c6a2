"""Training of a flow by maximum likelihood on precomputed sentence vectors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
import torch

from holdfast.baselines.flow import Coupling, Flow
from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.option_parsing import option_value

# AdamW as in the authors' code, but with the usual bias correction.
_WEIGHT_DECAY, _EPSILON, _MAX_GRADIENT_NORM = 0.01, 1e-6, 1.0
# Number of vectors that initialise the normalisations (ours: the authors' code uses one batch) and are held out.
_FIRST_VECTORS, _HELD_OUT_SHARE, _MOST_HELD_OUT = 1024, 0.05, 2000


@dataclass(frozen=True)
class FlowOptions:
    """The flow's own options; the defaults are those of the authors' code.

    Attributes:
        levels: number of groups of steps; each group has half of the coordinates of the one before.
        depth: number of steps in a level.
        width: width of the couplings' hidden layers.
        coupling: "additive" or "affine".
        epochs: passes over the vectors.
        batch_size: vectors per optimiser step (the authors: 32 pairs of sentences).
        learning_rate: learning rate, constant.
    """

    levels: int = 3
    depth: int = 3
    width: int = 32
    coupling: Coupling = "additive"
    epochs: float = 1.0
    batch_size: int = 64
    learning_rate: float = 1e-3

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FlowOptions:
        """Build the options from values by name; text values are parsed.

        Raises:
            UserError: a name is unknown, or a value is not valid.
        """
        hints = get_type_hints(cls)
        for name in values:
            if name not in hints:
                raise UserError(f"flow has no option {name!r}{did_you_mean(name, hints)}: it has {', '.join(hints)}")
        options = cls(**{name: option_value(name, value, hints[name]) for name, value in values.items()})
        one_of("option 'coupling'", options.coupling, get_args(Coupling))
        for field in fields(cls):
            value = getattr(options, field.name)
            if field.name != "coupling" and not (value > 0 and math.isfinite(value)):
                raise UserError(f"option {field.name!r} must be more than 0, got {value}")
        return options


@dataclass(frozen=True)
class FlowFit:
    """The results of a flow's training.

    Likelihoods are of the held-out vectors, in nats per dimension: higher is better.

    Attributes:
        steps: number of optimiser steps.
        trained_on: number of training vectors.
        held_out: number of held-out vectors.
        before: log-likelihood after the initialisation, before training.
        after: log-likelihood after training.
    """

    steps: int
    trained_on: int
    held_out: int
    before: float
    after: float


def fit_flow(
    vectors: npt.NDArray[np.float32],
    options: FlowOptions,
    *,
    seed: int,
    progress: Callable[[int, int, float], None] | None = None,
) -> tuple[Flow, FlowFit]:
    """Train a flow on the CPU. The same vectors, options and seed give the same flow on the same machine.

    Args:
        vectors: (n, d) float32, in random order (the last ones are held out); may be a memory map.
        options: see `FlowOptions`.
        seed: the seed of the weights and of the batches.
        progress: called with (steps done, steps, last loss in nats per dimension).

    Raises:
        UserError: there are too few vectors or too few dimensions for the levels, or a loss is not finite.
    """
    held_out = _held_out_of(len(vectors))
    trained_on = len(vectors) - held_out
    if held_out < 1 or trained_on < options.batch_size:
        raise UserError(
            f"a flow needs at least {_fewest(options.batch_size):,} sentences (one batch, and one in twenty is held "
            f"out), and there are {len(vectors):,}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU only: fork_rng restores no other state
        flow = _new_flow(vectors.shape[1], options)
    draw = np.random.default_rng(seed)
    first = draw.permutation(trained_on)[:_FIRST_VECTORS]
    with torch.no_grad():
        flow(torch.from_numpy(vectors[np.sort(first)]))
    test = torch.from_numpy(np.array(vectors[trained_on:]))
    before = _held_out_likelihood(flow, test)
    steps = _train(flow, vectors, trained_on, options, draw, progress)
    return flow.eval(), FlowFit(steps, trained_on, held_out, before, _held_out_likelihood(flow, test))


def _held_out_of(sentences: int) -> int:
    return min(_MOST_HELD_OUT, int(sentences * _HELD_OUT_SHARE))


def _fewest(batch_size: int) -> int:
    """Return the smallest number of sentences of which some are held out and a batch is left."""
    enough = (n for n in itertools.count(batch_size) if _held_out_of(n) and n - _held_out_of(n) >= batch_size)
    return next(enough)


def _new_flow(dimensions: int, options: FlowOptions) -> Flow:
    try:
        return Flow(
            dimensions, levels=options.levels, depth=options.depth, width=options.width, coupling=options.coupling
        )
    except ValueError as error:
        raise UserError(f"flow: {error}: set fewer levels") from error


def _train(
    flow: Flow,
    vectors: npt.NDArray[np.float32],
    trained_on: int,
    options: FlowOptions,
    draw: np.random.Generator,
    progress: Callable[[int, int, float], None] | None,
) -> int:
    size = options.batch_size
    steps = max(1, round(options.epochs * (trained_on // size)))
    optimizer = torch.optim.AdamW(flow.parameters(), lr=options.learning_rate, weight_decay=_WEIGHT_DECAY, eps=_EPSILON)
    order: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
    for step in range(1, steps + 1):
        if len(order) < size:  # the last rows of an epoch are left out if they are fewer than a batch
            order = draw.permutation(trained_on)
        rows, order = np.sort(order[:size]), order[size:]
        loss = -flow.log_probability(torch.from_numpy(vectors[rows])).mean() / flow.dimensions
        if not math.isfinite(value := loss.item()):
            raise UserError(f"flow: the loss is {value} in step {step}: set a smaller learning_rate")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(flow.parameters(), _MAX_GRADIENT_NORM)
        optimizer.step()
        if progress is not None:
            progress(step, steps, value)
    return steps


@torch.no_grad()
def _held_out_likelihood(flow: Flow, vectors: torch.Tensor) -> float:
    return float(flow.log_probability(vectors).double().mean()) / flow.dimensions
