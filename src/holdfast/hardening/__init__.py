"""A robust copy of an encoder in use, and what became of it."""

from __future__ import annotations

from holdfast.hardening.run import HardenSettings, harden

__all__ = ["HardenSettings", "harden"]
