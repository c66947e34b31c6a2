"""Memory and work of a training step, measured on small batches and computed for large ones.

The peak of a step's tensors grows linearly with the batch: c + P·B for a batch of B sentences in one pass, and at most
c + K·B + A·N in passes of N rows whose activations are computed again: K is what is kept of each sentence (its
embeddings, its vectors), A what a row needs while its gradient is computed. Steps of a few sentences, with every tensor
counted from its birth to its end, give the four numbers; the B·2B similarities of a batch are added to them.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakIdKeyDictionary

from holdfast.objectives import Objective

Batch = Callable[[int], list[dict[str, Any]]]
"""Returns the features of so many sentences, a mapping per column."""

_SIMILARITY_COPIES = 6
"""Matrices of B·2B similarities that live at once: logits, without equal texts, their gradient."""

_OF_LAYER = 0.1
"""Gradients inside a layer, as a share of the activations of all layers."""
_OF_EMBEDDINGS = 0.7
"""The gradient of the embeddings, twice while a mini-batch's is added, as a share of what is kept of a sentence."""


class LiveTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that are made inside the context and still exist, and the operations.

    torch's ``FlopCounterMode`` would keep the graphs of passes that are made again, by its hooks on modules.

    Attributes:
        live: bytes now.
        peak: the largest number so far.
        flops: floating-point operations of matrix products and attention, as torch counts them.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = self.flops = 0
        self._seen: Any = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count it, and the storages of its results that are new."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):  # nearly always; the walk over a tree takes longer than the operation
            self._count(result)
        else:
            tree_map_only(Tensor, self._count, result)
        if (counted := flop_registry.get(func._overloadpacket)) is not None:
            self.flops += counted(*args, **(kwargs or {}), out_val=result)
        return result

    def known(self, module: nn.Module) -> None:
        """Do not count the parameters and buffers of a module, of which some operations return views."""
        for tensor in (*module.parameters(), *module.buffers()):
            self._seen[tensor.untyped_storage()] = 0

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._seen:
            return
        size = storage.nbytes()
        self._seen[storage] = size
        weakref.finalize(storage, self._gone, size)
        self.live += size
        self.peak = max(self.peak, self.live)

    def _gone(self, size: int) -> None:
        self.live -= size


@dataclass(frozen=True)
class Step:
    """A training step as measured.

    Attributes:
        kept: bytes of the tensors that exist between the forward and the backward pass.
        peak: the largest number of bytes at any time.
        flops: floating-point operations.
        seconds: its duration.
    """

    kept: int
    peak: int
    flops: int
    seconds: float


def measured_step(
    objective: Objective, features: list[dict[str, Any]], *, labels: int | None = None, bf16: bool = False
) -> Step:
    """Return the memory and the work of a forward and a backward pass, gradients of parameters included.

    ``labels`` is the number of dimensions of the vectors that come with the sentences; None: none come.
    """
    rows = len(features[0]["input_ids"])
    vectors = None if labels is None else torch.randn(rows, labels, device=_device(objective))
    return _measured(objective, lambda: torch.stack(list(objective(features, vectors).values())).sum(), bf16)


def _measured_encoding(objective: Objective, features: dict[str, Any], *, bf16: bool) -> Step:
    """Return the memory and the work of the encoder alone, forward and backward, over each sentence once."""
    return _measured(objective, lambda: objective.encoder.encode(features).square().sum(), bf16)


def _growth(steps: Sequence[Step], sentences: int, transient: float) -> float:
    """Return the bytes by which a step grows with each sentence, from steps of so many and twice as many sentences.

    The peak of a small step may be at its end, where the gradient of the vocabulary exists and the activations do not:
    so the growth is at least that of what is kept for the backward pass, and a share for its ``transient`` tensors.
    """
    one, two = steps
    return max(0.0, two.peak - one.peak, (1.0 + transient) * (two.kept - one.kept)) / sentences


def _measured(objective: Objective, loss: Callable[[], Tensor], bf16: bool) -> Step:
    objective.zero_grad(set_to_none=True)
    memory = LiveTensors()
    memory.known(objective)
    for helper in objective.helper_models():
        memory.known(helper)
    begin = time.perf_counter()
    with memory:
        with torch.autocast(_device(objective), torch.bfloat16, enabled=bf16):
            value = loss()
        kept = memory.live
        if value.requires_grad:  # ADCL's first loss is constant, with a queue that is still empty
            torch.autograd.backward(value)
    seconds = time.perf_counter() - begin
    objective.zero_grad(set_to_none=True)
    return Step(kept, memory.peak, memory.flops, seconds)


@dataclass(frozen=True)
class StepMemory:
    """The memory of a training step, by batch and mini-batch, in bytes.

    Attributes:
        constant: c, for any batch: the gradients of the parameters, copies of weights in lower precision.
        sentence: P, for each sentence of a batch in one pass.
        kept: K, for each sentence of a batch in mini-batches.
        row: A, for each row of a mini-batch.
        flops: floating-point operations per sentence in one pass.
        flops_again: the same in mini-batches.
        seconds: per sentence in one pass, on this machine.
    """

    constant: float
    sentence: float
    kept: float
    row: float
    flops: float
    flops_again: float
    seconds: float

    @classmethod
    def of(
        cls, objective: Objective, batch: Batch, *, labels: int | None = None, least: int = 2, bf16: bool = False
    ) -> StepMemory:
        """Measure steps of ``least`` and of twice as many sentences; the objective is left as it was.

        ``labels`` is that of `measured_step`.
        """
        few, more = batch(least), batch(2 * least)
        with _left_alone(objective):
            one, two = (measured_step(objective, features, labels=labels, bf16=bf16) for features in (few, more))
            passes = [_measured_encoding(objective, features[0], bf16=bf16) for features in (few, more)]
            objective.use_mini_batches(1)
            in_parts = [measured_step(objective, features, labels=labels, bf16=bf16) for features in (few, more)]
        return cls(
            constant=max(0.0, one.peak - (two.peak - one.peak)),
            sentence=_growth([one, two], least, _OF_LAYER),
            kept=_growth(in_parts, least, _OF_EMBEDDINGS),
            row=_growth(passes, least, _OF_LAYER),
            flops=(two.flops - one.flops) / least,
            flops_again=(in_parts[1].flops - in_parts[0].flops) / least,
            seconds=two.seconds / (2 * least),
        )

    def peak(self, batch: int, rows: int | None = None) -> float:
        """Return the peak of a step of ``batch`` sentences, in one pass or in mini-batches of ``rows`` rows."""
        similarities = 4.0 * _SIMILARITY_COPIES * 2 * batch * batch
        each = self.sentence * batch if rows is None else self.kept * batch + self.row * rows
        return self.constant + similarities + each


def _device(objective: Objective) -> str:
    return next(objective.parameters()).device.type


@contextlib.contextmanager
def _left_alone(objective: Objective) -> Iterator[None]:
    """Restore the objective's state, mode, mini-batches and random numbers after the block."""
    state = {name: value.clone() for name, value in objective.own_state().items()}
    size, mode, follows = objective.mini_batch_size, objective.training, objective.followed_by_trainer
    groups = objective.length_groups
    objective.mini_batch_size = None
    objective.length_groups = 1  # a batch in one pass, as on a GPU
    objective.followed_by_trainer = True  # no state is updated
    objective.train()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        objective.load_own_state(state)
        objective.train(mode)
        objective.mini_batch_size, objective.followed_by_trainer = size, follows
        objective.length_groups = groups
