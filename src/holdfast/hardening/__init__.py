"""Robust copies of encoders in use, with audits before and after."""

from __future__ import annotations

from holdfast.hardening.hardening_run import HardenSettings, harden

__all__ = ["HardenSettings", "harden"]
