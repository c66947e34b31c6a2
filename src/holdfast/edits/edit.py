"""The contract of all changes of a text: an `Edit` has a name, a side and a language, and makes an `Edited` text.

An edit of the side "hold" keeps the meaning: an encoder's vector should stay. An edit of the side "move" changes it:
the vector should move, and further than by a hold edit of like size.
"""

from __future__ import annotations

import difflib
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from holdfast.edits.words import Words, is_unspaced

Side = Literal["hold", "move"]
SIDES: tuple[Side, ...] = ("hold", "move")

ENGLISH = "en"


class Change(NamedTuple):
    """A changed part of a text: the characters ``begin`` to ``end`` of the original became ``new``."""

    begin: int
    end: int
    new: str


@dataclass(frozen=True)
class Edited:
    """A changed text.

    Attributes:
        original: the text before the edit.
        changes: the changed parts, in order, without overlap; at least one.
    """

    original: str
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """The changed text."""
        parts, end = [], 0
        for change in self.changes:
            parts += [self.original[end : change.begin], change.new]
            end = change.end
        return "".join(parts) + self.original[end:]

    @property
    def share(self) -> float:
        """The share of words changed: the words that a change touches, removes or inserts; at least one word counts.

        In a script that writes no blanks between words, as Chinese or Thai, characters are counted instead.
        """
        spans = Words.of(self.original).units
        changes = [part for change in self.changes for part in _narrowed(self.original, change)]
        touched = {i for i, span in enumerate(spans) for change in changes if _touches(change, span)}
        inserted = sum(
            len(Words.of(change.new).units) for change in changes if not any(_touches(change, span) for span in spans)
        )
        return min(1.0, max(1, len(touched) + inserted) / max(1, len(spans)))


def _narrowed(original: str, change: Change) -> list[Change]:
    """Return the changed characters of a change where no blanks part words, else the change itself."""
    old = original[change.begin : change.end]
    if not is_unspaced(old):
        return [change]
    matched = difflib.SequenceMatcher(None, old, change.new, autojunk=False).get_opcodes()
    return [
        Change(change.begin + begin, change.begin + end, change.new[first:last])
        for kind, begin, end, first, last in matched
        if kind != "equal"
    ]


def _touches(change: Change, span: tuple[int, int]) -> bool:
    return change.begin < span[1] and span[0] < change.end


def edited(original: str, *changes: tuple[int, int, str]) -> Edited | None:
    """Return the text with parts changed, in any order; None if the text stays the same."""
    made = Edited(original, tuple(Change(*change) for change in sorted(changes)))
    return made if made.text != original else None


class Edit(ABC):
    """A named, seeded change of a text.

    An edit needs no state but what its constructor takes (a tagger, WordNet, the names of a corpus). It depends only on
    its arguments, and changes no global state.

    Attributes:
        NAME: unique name, as the report card prints it: the kind, or ``kind.variant`` (``negation``, ``case.lower``).
        SIDE: "hold" or "move".
        LANGUAGE: `ENGLISH` if it needs English texts, None if it applies to any language.
        ABOUT: what it does, a phrase without a full stop ("a negation put in or taken out").
    """

    NAME: ClassVar[str]
    SIDE: ClassVar[Side]
    LANGUAGE: ClassVar[str | None]
    ABOUT: ClassVar[str]

    @property
    def kind(self) -> str:
        """The kind: the name before its dot."""
        return self.NAME.partition(".")[0]

    @abstractmethod
    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the changed text, or None if the edit does not apply to the text.

        Args:
            text: the text, without a prompt.
            rng: the random number generator.
            strength: the share of words to change, 0 to 1; at least one word, so that 0 means the smallest change.
                Edits of the side "move" and those of a whole text (case, a full stop) ignore it.
        """
