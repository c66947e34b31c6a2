"""The ranges of numbers, by the name of the option, YAML key or setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from holdfast.errors import UserError


class Range(NamedTuple):
    """A range of numbers from ``low`` to ``high``; ``above`` excludes ``low`` itself."""

    low: float
    high: float
    above: bool = False

    def holds(self, value: float) -> bool:
        """Return True if ``value`` is in the range; NaN never is."""
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        low, high = (str(bound) if isinstance(bound, int) else f"{bound:g}" for bound in (self.low, self.high))
        return f"more than {low} and at most {high}" if self.above else f"from {low} to {high}"


_COUNT, _STEPS, _SIZE = Range(1, 10**9), Range(1, 10**9), Range(1, 10**6)
_UNNAMED = Range(-(10**9), 10**9)
"""The range of other numbers, such as options of methods, which have further checks."""

RANGES: Mapping[str, Range] = {
    "seed": Range(0, 2**32 - 1),  # numpy's generators take unsigned 32-bit seeds
    **dict.fromkeys(("max_steps", "eval_steps", "save_steps"), _STEPS),
    **dict.fromkeys(("examples", "test_examples", "sentences", "words", "limit", "pairs", "max_chars"), _COUNT),
    "texts_per_item": _COUNT,
    **dict.fromkeys(("batch_size", "mini_batch_size", "accumulate"), _SIZE),
    **dict.fromkeys(("side_by_side", "call_batch", "max_words", "dimensions", "k", "passages"), _SIZE),
    **dict.fromkeys(("candidates", "neighbours", "tries", "window"), _SIZE),
    **dict.fromkeys(("draws", "keep_checkpoints", "vocabulary", "intermediate", "evaluations"), _SIZE),
    "batch_tokens": Range(1, 10**8),
    **dict.fromkeys(("retries", "endpoint_retries"), Range(0, 1000)),
    "endpoint_characters": _COUNT,
    "endpoint_rate": Range(0, 10**6, above=True),
    "endpoint_timeout": Range(0, 10**5, above=True),
    "resamples": Range(100, 10**6),  # an interval needs its tails
    **dict.fromkeys(("max_length", "max_positions"), Range(1, 65_535)),
    "hidden": Range(1, 65_536),
    **dict.fromkeys(("layers", "heads", "jobs", "processes", "seeds"), Range(1, 1000)),
    "epochs": Range(0, 10**6, above=True),
    "hours": Range(0, 10**5, above=True),
    "max_seconds": Range(0, 10**7),  # 0: no limit
    "learning_rate": Range(0, 1e20, above=True),  # a rate that is too large is reported by the loss, with the step
    "threshold": Range(-1, 1),
    "margin": Range(0, 1000),
    "hybrid_weight": Range(0, 1000),  # 0: the encoder alone
    "query_share": Range(0, 1, above=True),
    "hold_out": Range(0, 10**6),  # 0: nothing
    "typo_vocabulary": Range(0, 10**6),  # 0: none
    "perplexity": Range(1, 10**6),
    "max_grad_norm": Range(0, 10**9),  # 0: no clipping
}


def in_range(name: str, value: float, where: str | None = None, *, least: float | None = None) -> None:
    """Refuse a number that is out of range.

    Args:
        name: name as a setting, such as "max_steps".
        value: the number.
        where: begin of the message, such as ``file:line: name``; None: the option of that name.
        least: another minimum.

    Raises:
        UserError: the value is out of range or not a number; the message gives the range.
    """
    allowed = RANGES.get(name, _UNNAMED)
    if least is not None:
        allowed = allowed._replace(low=least)
    if type(value) not in (int, float) or not allowed.holds(value):
        where = f"--{name.replace('_', '-')}" if where is None else where
        raise UserError(f"{where} must be {allowed}, got {short(value)}")


def check_numbers(settings: Any) -> None:
    """Refuse numbers of a settings dataclass that are out of range, as in `in_range`; None values are skipped."""
    assert is_dataclass(settings)
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name in RANGES and value is not None:
            in_range(field.name, value)


def short(value: object) -> str:
    """Return a value as text for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:20]}… ({len(text)} characters)"
