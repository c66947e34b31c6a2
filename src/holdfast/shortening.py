"""Shortening of long texts before tokenisation: a tokeniser splits even a megabyte of text before it truncates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_CHARACTERS_PER_TOKEN = 16
"""Several times the usual number; for a text with more characters per token, more of it is kept."""
_LEAST = 4096
"""Minimum number of characters: for shorter texts there is no gain."""


def shortened(texts: Sequence[str], limit: int | None, count: Callable[[list[str]], list[int]]) -> list[str]:
    """Return texts without the ends that the model does not read; the tokens that it reads stay the same.

    The first half of the kept text already has ``limit`` tokens; the second half is kept as context, since the tokens
    of a word can depend on the text after it. ``count`` returns the number of tokens read of each text, at most
    ``limit``.
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


def keeps_the_beginning(tokenizer: Any) -> bool:
    """Return True if a tokeniser truncates a text at its end; with ``truncation_side="left"`` it keeps the end."""
    return bool(getattr(tokenizer, "truncation_side", "right") == "right")


def shortened_for(tokenizer: Any, texts: Sequence[str], limit: int) -> list[str]:
    """Return `shortened` texts for a tokeniser that truncates at ``limit`` tokens; whole ones if it keeps the end."""
    if not keeps_the_beginning(tokenizer):
        return list(texts)

    def count(batch: list[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(batch, truncation=True, max_length=limit, verbose=False)["input_ids"]]

    return shortened(texts, limit, count)
