"""Robust copies of encoders in use, with audits before and after, and students of encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.hardening.distill_settings import DistillSettings
    from holdfast.hardening.distillation_run import distill
    from holdfast.hardening.harden_settings import HardenSettings
    from holdfast.hardening.hardening_run import harden

__all__ = ["DistillSettings", "HardenSettings", "distill", "harden"]

__getattr__ = lazy_exports(
    __name__,
    {
        "DistillSettings": "distill_settings",
        "HardenSettings": "harden_settings",
        "distill": "distillation_run",
        "harden": "hardening_run",
    },
)
