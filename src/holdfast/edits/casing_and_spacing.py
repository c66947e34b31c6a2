"""Changes of case, final full stop and trailing space, which keep the meaning of a text.

Each function returns None for a text that it does not change.
"""

from __future__ import annotations

import re

_ABBREVIATED = re.compile(r"\b[^\W\d_]\.[^\W\d_]\.$")


def lower_case(text: str) -> str | None:
    """Return the text in lower case."""
    lower = text.lower()
    return lower if lower != text else None


def upper_case(text: str) -> str | None:
    """Return the text in upper case."""
    upper = text.upper()
    return upper if upper != text else None


def toggle_full_stop(text: str) -> str | None:
    """Remove or add the final full stop; None after another mark, an ellipsis or an abbreviation (a.m.)."""
    stripped = text.rstrip()
    if _ABBREVIATED.search(stripped):
        return None
    if stripped.endswith(".") and stripped[-2:-1].isalnum():
        return stripped[:-1]
    return f"{stripped}." if stripped[-1:].isalnum() else None


def add_trailing_space(text: str) -> str:
    """Add a space at the end."""
    return f"{text} "
