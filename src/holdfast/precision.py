"""Which arithmetic a machine is good at."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]

_CPUINFO = Path("/proc/cpuinfo")  # Linux alone has it


def bf16_is_fast(device: torch.device) -> bool:
    """Whether the device computes bf16 matrix products faster than fp32 ones."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        if torch.cpu._is_amx_tile_supported():
            return True
        # Without AMX it is AVX-512's dot product of pairs. AMD's cores start as many of it in a cycle as
        # fp32 multiplications, Intel's half as many: no gain, and it measures slower. Without either, it is emulated.
        return bool(torch.cpu._is_avx512_bf16_supported()) and not _is_intel()
    return False


def _is_intel() -> bool:
    """Whether this machine's processor is one of Intel's; virtual machines may hide the AMX that it has."""
    return "GenuineIntel" in processor("vendor_id")


def processor(field: str) -> str:
    """What the first processor says of itself: a field of Linux's file, such as "model name".

    Elsewhere what the platform knows, whatever was asked for, which may be nothing.
    """
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(field):
                return line.partition(":")[2].strip()
    return platform.processor()


def auto_here() -> Literal["fp32", "bf16"]:
    """What "auto" is on the device that models go to on this machine: it is asked what it can do, and gets nothing."""
    from sentence_transformers.util import get_device_name

    return resolve("auto", torch.device(get_device_name()))


def resolve(precision: Precision, device: torch.device) -> Literal["fp32", "bf16"]:
    """bf16 where "auto" was asked for and the device has it; else what was asked for."""
    if precision == "auto":
        return "bf16" if bf16_is_fast(device) else "fp32"
    return precision
