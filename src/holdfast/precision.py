"""Which arithmetic a machine is good at."""

from __future__ import annotations

from typing import Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]


def bf16_is_fast(device: torch.device) -> bool:
    """Whether the device computes bf16 matrix products natively."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        # Without these units bf16 is emulated, and slower than fp32.
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def auto_here() -> Literal["fp32", "bf16"]:
    """What "auto" is on the device that models go to on this machine: it is asked what it can do, and gets nothing."""
    from sentence_transformers.util import get_device_name

    return resolve("auto", torch.device(get_device_name()))


def resolve(precision: Precision, device: torch.device) -> Literal["fp32", "bf16"]:
    """bf16 where "auto" was asked for and the device has it; else what was asked for."""
    if precision == "auto":
        return "bf16" if bf16_is_fast(device) else "fp32"
    return precision
