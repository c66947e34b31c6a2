"""What objectives refuse in their options; the command line turns it into its one line."""

from __future__ import annotations

from typing import Any, get_args


def check_words(**options: tuple[str, Any]) -> None:
    """Each option's value, given with the ``Literal`` of its words, must be one of them.

    Raises:
        ValueError: it is not.
    """
    for name, (value, words) in options.items():
        if value not in get_args(words):
            raise ValueError(f"{name} must be one of {', '.join(get_args(words))}, got {value!r}")
