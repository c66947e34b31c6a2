"""Long texts before they are tokenised: a tokeniser cuts a text of a megabyte into words first, and off after that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_CHARACTERS_PER_TOKEN = 16
"""Several times those of usual text; where a text has more of them, more of it is taken."""
_LEAST = 4096
"""Characters: below, there is nothing to gain."""


def shortened(texts: Sequence[str], limit: int | None, count: Callable[[list[str]], list[int]]) -> list[str]:
    """Return texts without the ends that no token which is read comes from; their tokens stay the same.

    Half of what is kept fills the model by itself, so that the other half follows the last token that is read: what a
    tokeniser makes of a word depends on the text near it.

    Args:
        texts: n texts.
        limit: the tokens that the model reads; None: all.
        count: the tokens that are read of each text, ``limit`` at most.
    """
    if not limit:
        return list(texts)
    half = max(_LEAST, _CHARACTERS_PER_TOKEN * limit)
    return [_shortened(text, half, limit, count) if len(text) > 2 * half else text for text in texts]


def _shortened(text: str, half: int, limit: int, count: Callable[[list[str]], list[int]]) -> str:
    while 2 * half < len(text):
        if count([text[:half]])[0] >= limit:
            return text[: 2 * half]
        half *= 2
    return text


def shortened_for(tokenizer: Any, texts: Sequence[str], limit: int) -> list[str]:
    """Return what `shortened` does for a tokeniser that cuts texts after ``limit`` tokens."""

    def count(some: list[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(some, truncation=True, max_length=limit, verbose=False)["input_ids"]]

    return shortened(texts, limit, count)
