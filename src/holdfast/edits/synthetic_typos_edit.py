"""Synthetic typing errors in content words, as an Edit; people's typing errors are `holdfast.edits.typing_edit`."""

from __future__ import annotations

import random
from typing import ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import Change, Edit, Edited, edited
from holdfast.edits.typing_errors import draw_typing_error
from holdfast.edits.words import Words, is_content_word

KINDS = ("key", "swap", "drop")


class SyntheticTypos(Edit):
    """Mistype content words: one error a word, not in its first letter, all kinds equally likely.

    Args:
        kinds: names from :data:`holdfast.edits.typing_errors.TYPING_ERRORS`.
    """

    NAME: ClassVar = "typos"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None
    ABOUT: ClassVar = "synthetic typing errors in content words"

    def __init__(self, kinds: tuple[str, ...] = KINDS) -> None:
        self.kinds = kinds

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with a share ``strength`` of its words mistyped; None if no word can be."""
        words = Words.of(text)
        left = number_to_change(strength, len(words.words))
        changes: list[Change] = []
        for place in drawn_order([float(is_content_word(word)) for word in words.words], rng):
            new = draw_typing_error(words.words[place], rng, self.kinds)
            changes += [Change(*words.spans[place], new)] if new is not None else []
            if len(changes) == left:
                break
        return edited(text, *changes)
