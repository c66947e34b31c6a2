"""Checks of the options of defences; the command line prints an error of these as one line."""

from __future__ import annotations

import math


def check_ball(
    *, steps: int, radius: float, step_size: float, init_std: float | None = None, least_steps: int = 1
) -> None:
    """Refuse a number of steps below ``least_steps`` and sizes that are negative or not finite.

    Raises:
        ValueError: a value is not valid.
    """
    if steps < least_steps:
        raise ValueError(f"steps must be at least {least_steps}, got {steps}")
    check_sizes(radius=radius, step_size=step_size, init_std=0.0 if init_std is None else init_std)


def check_sizes(**sizes: float) -> None:
    """Refuse numbers that are negative or not finite.

    Raises:
        ValueError: a number is not valid.
    """
    for name, size in sizes.items():
        if not (size >= 0.0 and math.isfinite(size)):
            raise ValueError(f"{name} must be a number from 0 up, got {size:g}")
