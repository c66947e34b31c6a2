"""Checks of the options of objectives; the command line reports their errors in one line."""

from __future__ import annotations

from typing import Any, get_args


def check_words(**options: tuple[str, Any]) -> None:
    """Check that the value of each option, given as (value, ``Literal``), is one of the words of the ``Literal``.

    Raises:
        ValueError: a value is not.
    """
    for name, (value, words) in options.items():
        if value not in get_args(words):
            raise ValueError(f"{name} must be one of {', '.join(get_args(words))}, got {value!r}")


def check_positive(**options: float | None) -> None:
    """Refuse numbers that are not above 0; None is not checked."""
    for name, value in options.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")


def check_not_negative(**options: float | None) -> None:
    """Refuse numbers below 0; None is not checked."""
    for name, value in options.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must not be negative, got {value}")
