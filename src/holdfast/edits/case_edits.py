"""Changes of case of a whole text, and of its final full stop, as Edits."""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from typing import ClassVar

from holdfast.edits.casing_and_spacing import toggle_full_stop
from holdfast.edits.edit import Change, Edit, Edited, edited

_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f]|['’](?=[^\W_]))*")
"""A word as people capitalise it, once: an accent that is a character of its own and an apostrophe are part of it."""


class Case(Edit):
    """Change the case of all words."""

    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text in another case; None if it stays the same, as in a script without case."""
        words = [(match[0], *match.span()) for match in _WORD.finditer(text)]
        changes = [Change(begin, end, self.cased(word, place)) for place, (word, begin, end) in enumerate(words)]
        return edited(text, *(change for change in changes if change.new != text[change.begin : change.end]))

    @abstractmethod
    def cased(self, word: str, place: int) -> str:
        """Return the word ``place`` of a text in this case."""


class LowerCase(Case):
    """Write a text in lower case."""

    NAME: ClassVar = "case.lower"
    ABOUT: ClassVar = "lower case"

    def cased(self, word: str, place: int) -> str:
        """Return the word in lower case."""
        return word.lower()


class UpperCase(Case):
    """Write a text in upper case."""

    NAME: ClassVar = "case.upper"
    ABOUT: ClassVar = "upper case"

    def cased(self, word: str, place: int) -> str:
        """Return the word in upper case."""
        return word.upper()


class TitleCase(Case):
    """Write a text as a title: each word capitalised."""

    NAME: ClassVar = "case.title"
    ABOUT: ClassVar = "each word capitalised"

    def cased(self, word: str, place: int) -> str:
        """Return the word with its first letter in upper case; the others stay."""
        return word[:1].upper() + word[1:]


class SentenceCase(Case):
    """Write a text in lower case with the first word capitalised: names lose their capitals."""

    NAME: ClassVar = "case.sentence"
    ABOUT: ClassVar = "only the first word capitalised"

    def cased(self, word: str, place: int) -> str:
        """Return the first word capitalised, others in lower case."""
        return word.capitalize() if place == 0 else word.lower()


class FullStop(Edit):
    """Remove the final full stop, or add one."""

    NAME: ClassVar = "full-stop"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None
    ABOUT: ClassVar = "adding or removing the final full stop"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with or without its full stop; None if it ends in another mark."""
        new, stripped = toggle_full_stop(text), text.rstrip()
        if new is None:
            return None
        if len(new) > len(stripped):
            return edited(text, (len(stripped), len(text), "."))
        return edited(text, (len(new), len(text), ""))
