"""What makes training on a CPU faster without changing what is computed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

# mallopt's parameters, and the values that glibc's own adjustment ends up at.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_USUAL_TRIM, _USUAL_MMAP = 64 << 20, 32 << 20

_TRIM_STEPS = 100
"""Steps between two returns of what is free: often enough that it cannot pile up, seldom enough to cost nothing."""


@contextmanager
def fast_on_cpu(module: nn.Module) -> Iterator[None]:
    """Eager attention, cheaper dropout and freed memory kept at hand, on a CPU; nothing on other devices.

    Holds for every ``SentenceTransformer`` in ``module``, of which an objective may have copies of its own, or for
    ``module`` where it is a Hugging Face model itself.

    The fused attention kernels of CPUs are the slower ones in training: their dropout takes a slow path, and so does
    their backward pass in bf16.
    """
    models = [part for part in module.modules() if isinstance(part, SentenceTransformer)]
    found = [module] if isinstance(module, PreTrainedModel) else [model.transformers_model for model in models]
    transformers = [part for part in found if part is not None and part.device.type == "cpu"]
    if not transformers:
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_freed_memory_kept())
        for transformer in transformers:
            stack.enter_context(_eager_with_cheap_dropout(transformer))
        yield


@contextmanager
def _eager_with_cheap_dropout(transformer: Any) -> Iterator[None]:
    before = transformer.config._attn_implementation
    modules: list[Any] = [module for module in transformer.modules() if type(module) is nn.Dropout]
    transformer.set_attn_implementation("eager")
    for module in modules:
        module.forward = partial(_dropout_of, module)
    try:
        yield
    finally:
        for module in modules:
            del module.forward
        transformer.set_attn_implementation(before)


@contextmanager
def _freed_memory_kept() -> Iterator[None]:
    """Let glibc keep large blocks that are freed; other C libraries are left alone.

    It gives blocks over 32 MiB back to the system at once. The gradient of the word embeddings is one, each step, and
    faulting its pages in anew takes a few per cent of the step.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        yield
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        mallopt(_M_MMAP_THRESHOLD, _USUAL_MMAP)
        mallopt(_M_TRIM_THRESHOLD, _USUAL_TRIM)


class FreedMemory(TrainerCallback):
    """Gives the heap's free pages back to the system every hundred steps; other C libraries are left alone.

    Passes of many shapes (an attack's candidates, a corpus with long sentences) leave gaps between the blocks in use
    that later ones do not fit into. What is in use stays level, yet the heap grows for as long as the training lasts.
    """

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Trim the heap, where its turn has come."""
        if state.global_step % _TRIM_STEPS == 0:
            with suppress(AttributeError, OSError, TypeError):
                ctypes.CDLL(None).malloc_trim(0)


def dropout(values: Tensor, probability: float) -> Tensor:
    """Dropout from 16 random bits a value, where torch spends 32 or more and draws them one by one on a CPU.

    The probability is rounded to a multiple of 2⁻¹⁶, and the scale of what is kept is that of the rounded one.
    """
    cut = round(probability * 65536)
    if cut == 0:
        return values
    if cut == 65536:
        return values * 0.0
    words = torch.empty((values.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    lanes = words.view(torch.int16)[: values.numel()].view(values.shape)
    mask = (lanes >= cut - 32768).to(values.dtype)
    return values * mask.div_(1 - cut / 65536)


def _dropout_of(module: nn.Dropout, values: Tensor) -> Tensor:
    return dropout(values, module.p) if module.training else values
