"""Choice of the precision, fp32 or bf16, for a device."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "fp32", "bf16"]
ResolvedPrecision = Literal["fp32", "bf16"]

_CPUINFO = Path("/proc/cpuinfo")  # only on Linux


def bf16_is_fast(device: torch.device) -> bool:
    """Return True if the device computes bf16 matrix products faster than fp32 ones."""
    import torch  # here, as the settings classes need only the names of the precisions

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        if torch.cpu._is_amx_tile_supported():
            return True
        # Without AMX, bf16 uses AVX-512's dot product of pairs. AMD's cores start as many of them per cycle as fp32
        # multiplications, Intel's half as many: no gain, and slower in measurements. Without both, it is emulated.
        # A virtual machine may hide the AMX of an Intel processor.
        return bool(torch.cpu._is_avx512_bf16_supported()) and "GenuineIntel" not in processor("vendor_id")
    return False


def processor(field: str) -> str:
    """Return a field of the first processor in /proc/cpuinfo, such as "model name".

    On other systems return the processor's name from the platform module, for any field; it may be empty.
    """
    if _CPUINFO.is_file():
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(field):
                return line.partition(":")[2].strip()
    return platform.processor()


def auto_here() -> ResolvedPrecision:
    """Return what "auto" means on this machine's default device, without allocating anything on it."""
    import torch
    from sentence_transformers.util import get_device_name

    return resolve("auto", torch.device(get_device_name()))


def resolve(precision: Precision, device: torch.device) -> ResolvedPrecision:
    """Resolve "auto": "bf16" if it is faster on the device, else "fp32"; other values are returned unchanged."""
    if precision == "auto":
        return "bf16" if bf16_is_fast(device) else "fp32"
    return precision
