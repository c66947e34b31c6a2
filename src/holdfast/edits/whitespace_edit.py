"""Careless white space: doubled spaces, tabs, no-break spaces, spaces at the ends, none after punctuation."""

from __future__ import annotations

import random
import re
from typing import ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import Change, Edit, Edited, edited
from holdfast.edits.words import Words

_SPACE = re.compile(r"[ \t\n\u00a0]+")
_AFTER_MARK = re.compile(r"(?<=[.,;:!?])\s+$")
NO_BREAK_SPACE = "\u00a0"


class Whitespace(Edit):
    """Change the white space beside words: it is doubled, a tab, a no-break space, or missing after punctuation.

    The first and the last word may also get a space at the text's end. A changed gap counts as one changed word.
    """

    NAME: ClassVar = "whitespace"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None
    ABOUT: ClassVar = "doubled, odd, added or missing white space"

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with other white space beside a share ``strength`` of its words; None without words."""
        parts, spans = Words.of(text).parts, Words.of(text).spans
        left = number_to_change(strength, len(spans))
        changes: list[Change] = []
        for place in drawn_order([1.0] * len(spans), rng):
            new = rng.choice(_spaced(parts[2 * place + 1], parts[2 * place + 2], place, len(spans)) or [""])
            begin, end = spans[place]
            changes += [Change(begin, end + len(parts[2 * place + 2]), new)] if new else []
            if len(changes) == left:
                break
        return edited(text, *changes)


def _spaced(word: str, gap: str, place: int, count: int) -> list[str]:
    """Return the forms of a word and the gap after it."""
    forms = []
    space = _SPACE.search(gap)
    if space is not None:
        others = [other for other in (space.group() + " ", "\t", NO_BREAK_SPACE) if other != space.group()]
        forms += [word + gap[: space.start()] + other + gap[space.end() :] for other in others]
        closed = _AFTER_MARK.sub("", gap)
        forms += [word + closed] if closed != gap and place < count - 1 else []
    if place == count - 1:
        forms.append(f"{word}{gap} ")
    if place == 0:
        forms.append(f" {word}{gap}")
    return forms
