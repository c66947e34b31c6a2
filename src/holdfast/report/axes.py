"""Axes of figures: positions of values, round ticks, linear and logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class AxisScale:
    """An axis.

    Attributes:
        low: the value at its start.
        high: the value at its end.
        ticks: the labelled values.
        logarithmic: whether equal ratios have equal distances.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the position of ``value``: 0 at the start of the axis, 1 at its end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear(values: Iterable[float], *, about: int = 5, zero: bool = False, top: float | None = None) -> AxisScale:
    """Return an axis over the values, with 0 if ``zero`` and ``top`` if given, and with about ``about`` round ticks."""
    held = [*values, *([0.0] if zero else []), *([] if top is None else [top])] or [0.0, 1.0]
    low, high = min(held), max(held)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        room = 0.5 * abs(high) or 0.5
        low, high = low - (0.0 if zero else room), high + room
    step = _round_step((high - low) / about)
    first = math.floor(low / step + 1e-9)
    last = first
    while last * step < high - 1e-9 * step:
        last += 1
    ticks = tuple(_exact(n * step) for n in range(first, last + 1))
    return AxisScale(ticks[0], ticks[-1], ticks)


def around(values: Iterable[float], *, about: int = 6, zero: bool = False) -> AxisScale:
    """Return an axis a little wider than the values, with the round ticks on it; from 0 with ``zero``."""
    held = list(values) or [0.0, 1.0]
    whole = linear(held, about=about, zero=zero)
    low, high = min(held), max(held)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        return whole
    from_zero = zero and low >= 0
    room = 0.05 * (high - (0.0 if from_zero else low))
    low, high = (0.0 if from_zero else low - room), high + room
    return AxisScale(low, high, tuple(tick for tick in whole.ticks if low <= tick <= high))


def logarithmic(values: Iterable[float]) -> AxisScale:
    """Return a logarithmic axis over values above 0, from one power of ten to another."""
    held = list(values)
    first, last = math.floor(math.log10(min(held))), math.ceil(math.log10(max(held)))
    last = max(last, first + 1)
    every = max(1, math.ceil((last - first) / 6))
    ticks = tuple(10.0**n for n in range(first, last + 1, every))
    return AxisScale(10.0**first, 10.0**last, ticks, logarithmic=True)


def tick_labels(scale: AxisScale) -> list[tuple[float, str]]:
    """Return the ticks and their labels, all with as many decimals as the finest tick needs."""
    texts = [f"{tick:.6g}" for tick in scale.ticks]
    if not scale.logarithmic and not any("e" in text for text in texts):
        decimals = max((len(text.partition(".")[2]) for text in texts), default=0)
        texts = [f"{tick:,.{decimals}f}" for tick in scale.ticks]
    return [(tick, text.replace("-", "−")) for tick, text in zip(scale.ticks, texts, strict=True)]


def decimals_of(value: float) -> int:
    """Return the decimals to show: one from 10 on, two from 0.1 on, below it enough for two significant digits."""
    if abs(value) >= 10:
        return 1
    # Uses the formatted text, so that rounding is included.
    exponent = int(f"{abs(value):.1e}".partition("e")[2]) if value else 0
    return max(2, 1 - exponent)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(power * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if power * factor >= rough - 1e-12))


def _exact(value: float) -> float:
    """Remove the rounding error of a product: 0.30000000000000004 becomes 0.3."""
    return float(f"{value:.10g}")
