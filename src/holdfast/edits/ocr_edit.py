"""Errors of optical character recognition: letters of like shape, words broken, joined, or hyphenated at line ends."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import Change, Edit, Edited, edited
from holdfast.edits.words import Words

ALIKE = "rn=m cl=d l=1=I=i O=0=o e=c S=5 B=8 vv=w nn=m ri=n h=b t=f a=o g=q u=ii Z=2 é=e ö=o ü=u ä=a"
"""Shapes that are mistaken for each other, both ways; a digit never becomes another digit."""

_SPACE = re.compile(r"[ \t](?=[^\W_])")
_OPERATIONS, _SHARES = ("alike", "broken", "joined", "line end"), (0.76, 0.08, 0.08, 0.08)


def _confusions() -> Mapping[str, tuple[str, ...]]:
    """Return by shape the shapes that it is read as."""
    found: dict[str, tuple[str, ...]] = {}
    for group in ALIKE.split():
        shapes = group.split("=")
        for shape in shapes:
            found[shape] = (*found.get(shape, ()), *(other for other in shapes if other != shape))
    return found


class OCR(Edit):
    """Change words as optical character recognition does: most by a letter of like shape (`ALIKE`).

    Others are broken in two, joined with the next, or hyphenated at the end of a line. The shares of these are a choice
    (76, 8, 8 and 8 %), not fitted.
    """

    NAME: ClassVar = "ocr"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None
    ABOUT: ClassVar = "errors of optical character recognition"

    def __init__(self) -> None:
        self.confusions = _confusions()
        self._shapes = re.compile("|".join(sorted(map(re.escape, self.confusions), key=len, reverse=True)))

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with a share ``strength`` of its words misread; None if no word can be."""
        spans = Words.of(text).spans
        left = number_to_change(strength, len(spans))
        changes: list[Change] = []
        for place in drawn_order([float(end - begin) for begin, end in spans], rng):
            change = self._misread(text, *spans[place], rng)
            changes += [change] if change is not None else []
            if len(changes) == left:
                break
        return edited(text, *changes)

    def _misread(self, text: str, begin: int, end: int, rng: random.Random) -> Change | None:
        word = text[begin:end]
        operation = rng.choices(_OPERATIONS, _SHARES)[0]
        if operation == "joined" and _SPACE.match(text, end):
            return Change(begin, end + 1, word)
        if operation in ("broken", "line end") and len(word) > 3 and word.isalpha():
            at = rng.randrange(2, len(word) - 1)
            return Change(begin, end, word[:at] + (" " if operation == "broken" else "-\n") + word[at:])
        shapes = list(self._shapes.finditer(word))
        if not shapes:
            return None
        shape = rng.choice(shapes)
        new = rng.choice(self.confusions[shape.group()])
        return Change(begin, end, word[: shape.start()] + new + word[shape.end() :])
