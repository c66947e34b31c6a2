"""The range of every number that an option, a key of a YAML file or a setting of that name takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from holdfast.errors import UserError


class Range(NamedTuple):
    """The numbers from ``low`` to ``high``.

    Attributes:
        low: the least.
        high: the greatest.
        above: take only what is more than ``low``.
    """

    low: float
    high: float
    above: bool = False

    def holds(self, value: float) -> bool:
        """Return whether ``value`` lies in it; NaN lies nowhere."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        low, high = (str(bound) if isinstance(bound, int) else f"{bound:g}" for bound in (self.low, self.high))
        return f"more than {low} and at most {high}" if self.above else f"from {low} to {high}"


_COUNT, _STEPS, _SIZE = Range(1, 10**9), Range(1, 10**9), Range(1, 10**6)
_UNNAMED = Range(-(10**9), 10**9)
"""Of a number without a range of its own, such as an option of a method, which has checks of its own besides."""

RANGES: Mapping[str, Range] = {
    "seed": Range(0, 2**32 - 1),  # numpy's generators take 32 bits and no sign
    **dict.fromkeys(("max_steps", "eval_steps", "save_steps"), _STEPS),
    **dict.fromkeys(("examples", "test_examples", "sentences", "words", "limit", "pairs", "max_chars"), _COUNT),
    **dict.fromkeys(("batch_size", "accumulate", "side_by_side", "call_batch", "max_words", "dimensions", "k"), _SIZE),
    **dict.fromkeys(("draws", "keep_checkpoints", "vocabulary", "intermediate", "evaluations"), _SIZE),
    "batch_tokens": Range(1, 10**8),
    "resamples": Range(100, 10**6),  # an interval needs its tails
    "max_length": Range(1, 65_535),
    "hidden": Range(1, 65_536),
    **dict.fromkeys(("layers", "heads", "jobs", "processes", "seeds"), Range(1, 1000)),
    "epochs": Range(0, 10**6, above=True),
    "hours": Range(0, 10**5, above=True),
    "learning_rate": Range(0, 1e20, above=True),  # far too large is found by the loss, which tells the step
    "threshold": Range(-1, 1),
    "margin": Range(0, 1000),
    "perplexity": Range(1, 10**6),
    "max_grad_norm": Range(0, 10**9),  # 0: they are not clipped
}


def in_range(name: str, value: float, where: str | None = None, *, least: float | None = None) -> None:
    """Refuse a number that is out of the range of its name.

    Args:
        name: as a setting: "max_steps".
        value: the number.
        where: what the line begins with, such as ``file:line: name``; None: the option of that name.
        least: a least number of its own.

    Raises:
        UserError: it is out of range, or no number; the line says the range.
    """
    allowed = RANGES.get(name, _UNNAMED)
    if least is not None:
        allowed = allowed._replace(low=least)
    if type(value) not in (int, float) or not allowed.holds(value):
        where = f"--{name.replace('_', '-')}" if where is None else where
        raise UserError(f"{where} must be {allowed}, got {short(value)}")


def check_numbers(settings: Any) -> None:
    """Refuse a number of some settings that is out of the range of its name.

    Args:
        settings: a dataclass; None in it is a number that was not chosen.

    Raises:
        UserError: as `in_range`.
    """
    assert is_dataclass(settings)
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name in RANGES and value is not None:
            in_range(field.name, value)


def short(value: object) -> str:
    """Return a value for a line, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:20]}… ({len(text)} characters)"
