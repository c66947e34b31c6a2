"""The cost of a training before it starts: memory and operations of a step, and the mini-batch that fits a GPU."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

    from holdfast.objectives import Objective
    from holdfast.training.step_memory import StepMemory
    from holdfast.training.train_config import TrainConfig

DEFAULT_MEMORY = "24GB"
_GIGA = 10**9
_UNITS = {"": _GIGA, "GB": _GIGA, "G": _GIGA, "GIB": 2**30, "MB": 10**6, "MIB": 2**20}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_RESERVED, _FRAGMENTED = 0.8e9, 0.05
"""Bytes of a GPU that its libraries take, and the share of its memory that is lost between blocks."""
_ADAM = 8
"""Bytes of AdamW's two moments per trained number."""
_CASES = (2, 12)
"""Numbers of sentences to measure with; the second for methods that need more than four in a batch."""
_ASSUMED_RATE = 50e12
"""Floating-point operations per second of the example in the printed plan."""


@dataclass(frozen=True)
class TrainingPlan:
    """The cost of a training step.

    Attributes:
        batch: sentences of a step on one process.
        length: tokens per sentence at most, for which the plan is.
        precision: fp32 or bf16.
        mini_batch: rows of a mini-batch that were asked for; None: none.
        weights: bytes of all weights and buffers, copies and helping models included.
        trained: numbers that are trained.
        memory: bytes of the GPU to fit.
        step: the memory of a step by batch and mini-batch.
    """

    batch: int
    length: int
    precision: str
    mini_batch: int | None
    weights: int
    trained: int
    memory: float
    step: StepMemory

    @property
    def fixed(self) -> float:
        """Bytes that any batch needs between steps: weights and the optimiser's moments."""
        return self.weights + _ADAM * self.trained

    def total(self, rows: int | None) -> float:
        """Return the bytes of a step in one pass (None) or in mini-batches of so many rows."""
        return self.fixed + self.step.peak(self.batch, rows)

    @property
    def usable(self) -> float:
        """Bytes of the GPU that tensors can use."""
        return self.memory * (1.0 - _FRAGMENTED) - _RESERVED

    def fitting(self) -> int | None:
        """Return the largest power of two of rows that fits, at most 4096; None: not even one row fits."""
        sizes = [2**power for power in range(13)]
        return max((rows for rows in sizes if self.total(rows) <= self.usable), default=None)

    def record(self) -> dict[str, Any]:
        """Return the plan for a machine, in bytes."""
        fields = {name: value for name, value in vars(self).items() if name != "step"}
        return {
            **fields,
            "fixed": self.fixed,
            "usable": self.usable,
            "as_asked": self.total(self.mini_batch),
            "one_pass": self.total(None),
            "fits_in_one_pass": self.total(None) <= self.usable,
            "fitting_mini_batch": self.fitting(),
            "per_sentence": asdict(self.step),
        }

    def lines(self) -> list[str]:
        """Return the plan for people."""
        step, giga = self.step, _giga
        return [
            f"a step of {self.batch:,} sentences of {self.length} tokens, {self.precision}",
            f"weights, copies and helping models {giga(self.weights)}, AdamW {giga(_ADAM * self.trained)}, "
            f"gradients and other constants {giga(step.constant)}",
            f"in one pass: {giga(step.sentence)} a sentence, {giga(self.total(None))} in all",
            f"in mini-batches: {giga(step.kept)} is kept of a sentence, and {giga(step.row)} needed for a row; "
            + ", ".join(f"{rows} rows {giga(self.total(rows))}" for rows in self._shown()),
            f"work: {step.flops * self.batch / 1e12:,.1f} TFLOP in one pass, "
            f"{step.flops_again * self.batch / 1e12:,.1f} in mini-batches: {self._seconds():,.1f} s at "
            f"{_ASSUMED_RATE / 1e12:.0f} TFLOP/s; about {step.seconds * self.batch:,.0f} s on this machine, "
            "where a few sentences were timed",
            self._advice(),
        ]

    def _shown(self) -> list[int]:
        sizes = {16, 64, 256} | ({self.mini_batch} if self.mini_batch else set())
        return sorted(size for size in sizes if size)

    def _seconds(self) -> float:
        in_one = self.mini_batch is None and self.total(None) <= self.usable
        return (self.step.flops if in_one else self.step.flops_again) * self.batch / _ASSUMED_RATE

    def _advice(self) -> str:
        memory, fitting = _giga(self.memory), self.fitting()
        if self.total(None) <= self.usable:
            return f"{memory}: it fits in one pass"
        if fitting is None:
            return f"{memory}: it does not fit, not even in mini-batches of one row: lower --batch-size or --max-length"
        return (
            f"{memory}: it does not fit in one pass; --mini-batch-size {fitting} does, in "
            f"{_giga(self.total(fitting))}, or any smaller one"
        )


def memory_of(text: str) -> float:
    """Return the bytes of a text such as ``24GB`` or ``80GiB``; a number alone is in GB.

    Raises:
        UserError: it is no such text.
    """
    found = _MEMORY.fullmatch(text.strip())
    if found is None or found[2].upper() not in _UNITS or not 0 < float(found[1]) < 10**6:
        raise UserError(f"--plan-memory takes the memory of a GPU, such as 24GB, not {text!r}")
    return float(found[1]) * _UNITS[found[2].upper()]


def plan_of(
    config: TrainConfig, model: SentenceTransformer, objective: Objective, length: int, precision: str, processes: int
) -> TrainingPlan:
    """Measure a few sentences of the corpus, repeated to their full length, and return the plan.

    The vectors of ``--vectors``, which may not have been computed, and those of the bank are random ones: only their
    sizes count.

    Raises:
        UserError: the corpus is missing or malformed, or the memory of the GPU is not one.
    """
    import torch

    from holdfast.data.corpus import read_corpus
    from holdfast.encoder import Encoder, freeze_unused
    from holdfast.training.step_memory import StepMemory

    memory = memory_of(config.plan_memory or DEFAULT_MEMORY)
    columns = 1 if config.positive_column is None else 2
    read = read_corpus(
        config.corpus,
        column=config.column,
        positive_column=config.positive_column,
        data=config.data,
        max_chars=config.max_chars,
    )
    lines = list(itertools.islice(read, 64))
    encoder = Encoder(model)
    freeze_unused(encoder, encoder.tokenise(lines[:2]))

    def batch(sentences: int) -> list[dict[str, Any]]:
        texts = [" ".join(itertools.islice(itertools.cycle(lines[n:] + lines[:n]), length)) for n in range(sentences)]
        return [dict(encoder.tokenise(texts)) for _ in range(columns)]

    if (queue := getattr(objective, "queue", None)) is not None:  # an attack without negatives would end at once
        queue.push(torch.randn(8, queue.keys.shape[1]))
    dimensions = model.get_embedding_dimension() or 0
    if wanted := objective.WANTED_TEXTS:
        objective.see_texts([""] * wanted, torch.randn(wanted, dimensions))
    labels = None if config.vectors is None else dimensions
    step = _measured(StepMemory, objective, batch, labels, bf16=precision == "bf16")
    modules = [objective, *objective.helper_models()]
    return TrainingPlan(
        batch=(config.batch_size or 1) // processes,
        length=length,
        precision=precision,
        mini_batch=config.mini_batch_size,
        weights=sum(map(_bytes_of, modules)),
        trained=sum(each.numel() for each in objective.parameters() if each.requires_grad),
        memory=memory,
        step=step,
    )


def _measured(
    kind: type[StepMemory], objective: Objective, batch: Any, labels: int | None, *, bf16: bool
) -> StepMemory:
    few, enough = _CASES
    try:
        return kind.of(objective, batch, labels=labels, least=few, bf16=bf16)
    except UserError:  # contrastive tension needs more sentences than its negatives
        return kind.of(objective, batch, labels=labels, least=enough, bf16=bf16)


def _bytes_of(module: nn.Module) -> int:
    tensors: Sequence[Any] = [*module.parameters(), *module.buffers()]
    return sum(each.numel() * each.element_size() for each in tensors)


def _giga(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
