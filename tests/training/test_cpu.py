"""Faster training on a CPU computes the same thing."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from holdfast.training.cpu import dropout, fast_on_cpu


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_share_and_scale_of_what_is_kept(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values = torch.ones(999, 1001, dtype=dtype)
    kept = dropout(values, probability)
    share = (kept != 0).double().mean().item()
    assert share == pytest.approx(1 - probability, abs=4 * (probability * (1 - probability) / values.numel()) ** 0.5)
    scale = 1 / (1 - round(probability * 65536) / 65536)
    assert kept.double().max().item() == pytest.approx(scale, rel=1e-6 if dtype == torch.float32 else 4e-3)
    lanes = [(kept.flatten()[lane::4] != 0).double().mean().item() for lane in range(4)]
    assert lanes == pytest.approx([1 - probability] * 4, abs=5e-3), "the four values that share a draw are alike"
    pairs = (kept.flatten()[:-1] != 0) & (kept.flatten()[1:] != 0)
    assert pairs.double().mean().item() == pytest.approx((1 - probability) ** 2, abs=5e-3), "neighbours depend"


def test_the_gradient_passes_where_the_value_did() -> None:
    values = torch.randn(50, 50, requires_grad=True)
    kept = dropout(values, 0.3)
    kept.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad, (kept / values).detach(), rtol=1e-5, atol=1e-6)


def test_it_follows_the_seed_and_the_edges() -> None:
    values = torch.randn(7, 3)
    torch.manual_seed(1)
    first, second = dropout(values, 0.5), dropout(values, 0.5)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(dropout(values, 0.5), first)
    assert dropout(values, 0.0) is values
    assert (dropout(values, 1.0) == 0).all()


def test_the_model_comes_back_as_it_was(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    transformer = model.transformers_model
    transformer.set_attn_implementation("sdpa")
    features = model.preprocess(sentences)
    expected = model(dict(features))["sentence_embedding"]
    with fast_on_cpu(model):
        assert transformer.config._attn_implementation == "eager"
        assert any("forward" in vars(m) for m in transformer.modules() if isinstance(m, nn.Dropout))
        torch.testing.assert_close(model(dict(features))["sentence_embedding"], expected, rtol=1e-4, atol=1e-5)
        model.train()
        torch.manual_seed(0)
        noisy = model(dict(features))["sentence_embedding"]
        assert (noisy - expected).abs().max() > 1e-2
        model.eval()
    assert transformer.config._attn_implementation == "sdpa"
    assert not any("forward" in vars(module) for module in transformer.modules())
    assert torch.equal(model(dict(features))["sentence_embedding"], expected)


_FREED = """
import torch
from pathlib import Path
from types import SimpleNamespace
from holdfast.training.cpu import FreedMemory, _freed_memory_kept

def resident():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) // 1024

with _freed_memory_kept():
    blocks = [torch.ones(8 << 20, dtype=torch.uint8) for _ in range(41)]
    pin = torch.ones(1 << 16, dtype=torch.uint8)  # lies above them, so that the heap's end cannot move down
    del blocks
    seen = [resident()]
    for step in (99, 100):
        FreedMemory().on_step_end(None, SimpleNamespace(global_step=step), None)
        seen.append(resident())
print(*seen)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_what_the_heap_keeps_is_given_back_every_hundred_steps() -> None:
    ran = subprocess.run([sys.executable, "-c", _FREED], capture_output=True, text=True, check=True)
    kept, before, after = (int(value) for value in ran.stdout.split())
    assert before >= kept - 8, "memory was returned before its turn"
    assert kept - after >= 256
