"""Robust copies of encoders in use, with audits before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.hardening.harden_settings import HardenSettings
    from holdfast.hardening.hardening_run import harden

__all__ = ["HardenSettings", "harden"]

__getattr__ = lazy_exports(
    __name__,
    {
        "HardenSettings": "harden_settings",
        "harden": "hardening_run",
    },
)
