"""Copies of the audited texts made by edits: of the side "hold", and of the side "move" with a hold edit beside each.

An edit changes only the part of a text that the model reads. Its random generator depends on the seed, the name of the
edit and the position of the text in its source, so that a copy does not depend on the other texts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.attacks.encoder_targets import characters_read
from holdfast.audit.vector_movement import Copy, Space
from holdfast.edits.edit import Edit, Edited
from holdfast.edits.words import Words

LARGEST_SHARE = 0.25
"""Largest share of words that a hold edit is asked to change: with more, mistyped words would no longer be readable."""
_NEAREST_SIZES = 0.5
"""Words by which the size of a hold edit may be further from that of the move edit than the nearest one."""


@dataclass(frozen=True)
class ReadTexts:
    """Texts, each split where the model stops reading.

    Attributes:
        space: the texts and their vectors.
        seen: number of characters that the model reads of each text.
        seed: the random seed.
    """

    space: Space
    seen: Sequence[int]
    seed: int

    @classmethod
    def of(cls, space: Space, seed: int) -> ReadTexts:
        """Find what the model reads of each text, after its prompt."""
        return cls(space, [characters_read(space.model, text) for text in space.texts], seed)

    def rng(self, name: str, index: int) -> random.Random:
        """Return the random generator of an edit for a text."""
        return random.Random(f"{self.seed}/{name}/{self.space.numbers[index]}")

    def edited(self, edit: Edit, index: int, strength: float) -> Edited | None:
        """Edit what the model reads of a text, without the rest; None if the edit does not apply."""
        return edit(self.space.texts[index][: self.seen[index]], self.rng(edit.NAME, index), strength)

    def copy(self, index: int, made: Edited, share: float | None = None) -> Copy:
        """Return the copy of a whole text; its share of changed words is that of the words that are read.

        Args:
            index: index of the text.
            made: what the model reads of it, edited.
            share: another share.
        """
        rest = self.space.texts[index][self.seen[index] :]
        return Copy(index, made.text + rest, (), made.share if share is None else share, made.changes)


def edited_copies(
    texts: ReadTexts, edit: Edit, *, strength: float, most: int, deadline: float, of_one_word: bool = False
) -> list[Copy]:
    """Return copies of the first texts that the edit applies to.

    Args:
        texts: the texts.
        edit: the edit.
        strength: the share of words to change.
        most: the largest number of copies.
        deadline: no copy is begun after this time, by `time.monotonic`.
        of_one_word: the share of each copy is that of one word, however many the edit touches.
    """
    copies: list[Copy] = []
    for index in range(len(texts.space.texts)):
        if len(copies) == most or time.monotonic() > deadline:
            break
        made = texts.edited(edit, index, strength)
        if made is not None:
            share = 1 / max(1, len(Words.of(made.text).units)) if of_one_word else None
            copies.append(texts.copy(index, made, share))
    return copies


@dataclass(frozen=True)
class Pair:
    """A text changed twice: with another meaning, and with the same.

    Attributes:
        move: the copy with another meaning.
        hold: the copy with the same meaning.
        beside: the name of the edit that made the second copy.
    """

    move: Copy
    hold: Copy
    beside: str


class HoldBeside:
    """Choice of the hold edit that stands beside a move edit: on the same text, of like size.

    The size is the share of changed words. Of the edits whose size is nearest, one is drawn. Changes of form stand
    there only for texts that none of the first edits applies to: for a model that reads neither case nor punctuation
    they change nothing, and have no size.

    Args:
        texts: the texts.
        edits: the edits that change words and keep the meaning.
        form: the edits of form.
    """

    def __init__(self, texts: ReadTexts, edits: Sequence[Edit], form: Sequence[Edit]) -> None:
        self._texts, self._edits, self._form = texts, edits, form
        self._made: dict[tuple[str, int, int], Edited | None] = {}

    def of(self, move: Edit, index: int, moved: Edited) -> tuple[str, Edited] | None:
        """Return the name of the hold edit beside a moved text, and the held text; None if none applies."""
        words = max(1, len(Words.of(moved.original).units))
        size = max(1, round(min(moved.share, LARGEST_SHARE) * words))
        for edits in (self._edits, self._form):
            made = [(edit.NAME, self._hold(edit, index, size, words)) for edit in edits]
            held = [(name, hold) for name, hold in made if hold is not None and hold.text != moved.text]
            if held:
                off = [abs(hold.share - moved.share) * words for _, hold in held]
                near = [each for each, far in zip(held, off, strict=True) if far <= min(off) + _NEAREST_SIZES]
                return self._texts.rng(f"{move.NAME}/beside", index).choice(near)
        return None

    def _hold(self, edit: Edit, index: int, size: int, words: int) -> Edited | None:
        """Return the text after a hold edit of ``size`` words; the same one for every move edit of that size."""
        key = (edit.NAME, index, size)
        if key not in self._made:
            self._made[key] = self._texts.edited(edit, index, size / words)
        return self._made[key]


def moved_pairs(texts: ReadTexts, move: Edit, beside: HoldBeside, *, most: int, deadline: float) -> list[Pair]:
    """Return the first texts that a move edit applies to, each with a hold edit beside it."""
    pairs: list[Pair] = []
    for index in range(len(texts.space.texts)):
        if len(pairs) == most or time.monotonic() > deadline:
            break
        moved = texts.edited(move, index, 0.0)
        held = moved and beside.of(move, index, moved)
        if moved and held:
            pairs.append(Pair(texts.copy(index, moved), texts.copy(index, held[1]), held[0]))
    return pairs
