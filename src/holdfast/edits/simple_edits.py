"""Edits of the side "hold" that need no resources: case, the final full stop, a trailing space, random typos."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

from holdfast.edits.casing_and_spacing import add_trailing_space, lower_case, toggle_full_stop, upper_case
from holdfast.edits.edit import Edit, Edited, Side, edited
from holdfast.edits.typing_errors import draw_typing_error
from holdfast.edits.words import Words, is_content_word


class WholeTextEdit(Edit):
    """A change of the whole text by a function."""

    SIDE: ClassVar[Side] = "hold"
    LANGUAGE: ClassVar[str | None] = None

    def __init__(self, change: Callable[[str], str | None]) -> None:
        self._change = change

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the changed text, or None if the function does not change it."""
        new = self._change(text)
        return None if new is None else edited(text, *_changed_parts(text, new))


def _changed_parts(old: str, new: str) -> list[tuple[int, int, str]]:
    """Return the changed words of a text whose gaps stay the same, else everything from the first difference on."""
    before, after = Words.of(old), Words.of(new)
    if before.parts[::2] == after.parts[::2]:
        words = zip(before.spans, before.words, after.words, strict=True)
        return [(*span, word) for span, own, word in words if own != word]
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return [(same, len(old), new[same:])]


class LowerCase(WholeTextEdit):
    """The text in lower case."""

    NAME, ABOUT = "case.lower", "lower case"

    def __init__(self) -> None:
        super().__init__(lower_case)


class UpperCase(WholeTextEdit):
    """The text in upper case."""

    NAME, ABOUT = "case.upper", "upper case"

    def __init__(self) -> None:
        super().__init__(upper_case)


class FullStop(WholeTextEdit):
    """The final full stop removed or added."""

    NAME, ABOUT = "full-stop", "the final full stop removed or added"

    def __init__(self) -> None:
        super().__init__(toggle_full_stop)


class TrailingSpace(WholeTextEdit):
    """A space added at the end."""

    NAME, ABOUT = "blank", "a trailing space"

    def __init__(self) -> None:
        super().__init__(add_trailing_space)


class RandomTypos(Edit):
    """Content words mistyped at random: a neighbouring key, two letters swapped, a letter missing."""

    NAME: ClassVar[str] = "typos"
    SIDE: ClassVar[Side] = "hold"
    LANGUAGE: ClassVar[str | None] = None
    ABOUT: ClassVar[str] = "words mistyped at random"
    KINDS: ClassVar[tuple[str, ...]] = ("key", "swap", "drop")

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with a share of its words mistyped, at least one; None if no word can be."""
        words = Words.of(text)
        places = [place for place, word in enumerate(words.words) if is_content_word(word)]
        rng.shuffle(places)
        most = max(1, int(strength * len(words.words) + 0.5))
        changes: list[tuple[int, int, str]] = []
        for place in places:
            if len(changes) == most:
                break
            error = draw_typing_error(words.words[place], rng, self.KINDS)
            if error is not None:
                changes.append((*words.spans[place], error))
        return edited(text, *changes) if changes else None


def simple_edits() -> tuple[Edit, ...]:
    """Return the edits of this module."""
    return LowerCase(), UpperCase(), FullStop(), TrailingSpace(), RandomTypos()
