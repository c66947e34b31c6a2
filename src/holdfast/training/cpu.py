"""Faster training on a CPU, with the same computations."""

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

# Parameters of mallopt, and the values that glibc's own dynamic adjustment converges to.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_USUAL_TRIM, _USUAL_MMAP = 64 << 20, 32 << 20

_TRIM_STEPS = 100
"""Steps between two calls of malloc_trim: free memory does not accumulate, and the cost is negligible."""


@contextmanager
def fast_on_cpu(module: nn.Module) -> Iterator[None]:
    """Use eager attention and cheaper dropout, and keep freed memory in the heap, on a CPU; no effect on other devices.

    Applies to every ``SentenceTransformer`` in ``module`` (an objective may hold copies), or to ``module`` itself if it
    is a Hugging Face model.

    In training on a CPU the fused attention kernels are slower than eager attention: their dropout takes a slow path,
    and so does their backward pass in bf16.
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
    """Let glibc keep large freed blocks; no effect with other C libraries."""
    # By default glibc returns blocks over 32 MiB to the system at once. The gradient of the word embeddings is such a
    # block in each step, and the page faults for a new one take a few per cent of the step.
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
    """Callback that returns the heap's free pages to the system every hundred steps; only with glibc.

    Passes of many shapes (candidates of an attack, long sentences) fragment the heap: later blocks do not fit into the
    gaps. The memory in use stays constant, but without trimming the heap grows during the whole training.
    """

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Trim the heap every hundred steps."""
        if state.global_step % _TRIM_STEPS == 0:
            with suppress(AttributeError, OSError, TypeError):
                ctypes.CDLL(None).malloc_trim(0)


def dropout(values: Tensor, probability: float) -> Tensor:
    """Apply dropout with 16 random bits per value; on a CPU torch uses at least 32 and draws them one by one.

    The probability is rounded to a multiple of 2⁻¹⁶; the scale of the kept values uses the rounded probability.
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
