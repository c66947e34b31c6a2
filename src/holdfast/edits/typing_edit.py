"""Typing errors as people make them: the Edit "typing", with rates fitted on misspellings and typed questions."""

from __future__ import annotations

import random
import re
from typing import ClassVar

from holdfast.edits.chosen_words import drawn_order, number_to_change
from holdfast.edits.edit import Change, Edit, Edited, edited
from holdfast.edits.misspellings import Misspellings
from holdfast.edits.typing_rates import JOIN, MISSPELLING, SLIP, TypingRates, typing_rates
from holdfast.edits.words import Words

_APOSTROPHE = re.compile(r"['’](?=[^\W\d_])")
_FINAL_MARK = re.compile(r"(?<=\w)[.?!](?=\s*\Z)")
_SPACE = re.compile(r"[ \t](?=[^\W_])")


class PeoplesTyping(Edit):
    """Mistype words as people do: misspellings and slips of the fingers, also in first letters and short words.

    Which words are hit, the operations, places and letters follow `holdfast.edits.typing_rates`. Words with a digit are
    never changed. The rates come from English texts and a QWERTY keyboard; in another script only deleted, doubled and
    swapped letters, and lost or added spaces remain.

    Args:
        rates: rates of errors; None: the fitted ones.
        misspellings: known misspellings of words. A word to mistype that has some gets one of them with the probability
            ``misspellings.share``, and otherwise an error by the rates.
    """

    NAME: ClassVar = "typing"
    SIDE: ClassVar = "hold"
    LANGUAGE: ClassVar = None
    ABOUT: ClassVar = "typing errors as people make them"

    def __init__(self, rates: TypingRates | None = None, misspellings: Misspellings | None = None) -> None:
        self.rates = rates or typing_rates()
        self.misspellings = misspellings

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with a share ``strength`` of its words mistyped; None if no word can be."""
        words = Words.of(text)
        spans, kinds = words.spans, self.rates.kinds(words.words)
        left = number_to_change(strength, len(spans))
        changes: list[Change] = []
        for place in drawn_order([misspelling + slip for misspelling, slip in kinds], rng):
            misspelling, slip = kinds[place]
            kind = MISSPELLING if rng.random() * (misspelling + slip) < misspelling else SLIP
            change = self._mistyped(text, spans[place], kind, rng)
            changes += [change] if change is not None else []
            if len(changes) == left:
                break
        if changes and self.rates.drawn("final mark", rng) == "lost":
            mark = _FINAL_MARK.search(text)
            changes += [Change(*mark.span(), "")] if mark else []
        return edited(text, *changes)

    def _mistyped(self, text: str, span: tuple[int, int], kind: str, rng: random.Random) -> Change | None:
        begin, end = span
        word = text[begin:end]
        known = self.misspellings.draw(word, rng) if self.misspellings is not None else None
        if known is not None:
            return Change(begin, end, known)
        if _APOSTROPHE.match(text, end) and self.rates.drawn(f"{kind}/apostrophe", rng) == "lost":
            return Change(begin, end + 1, word)
        capital = self.rates.drawn(f"{kind}/capital", rng) if word[:1].isupper() else ""
        if capital == "lost" or (capital == "doubled" and word[1:2].islower()):
            return Change(begin, end, word[0].lower() + word[1:] if capital == "lost" else word[:2].upper() + word[2:])
        operations = self.rates.operations(kind, word, rng)
        if operations == [JOIN] and _SPACE.match(text, end):
            return Change(begin, end + 1, word)
        new = self.rates.mistyped(kind, word, operations, rng)
        return None if new is None else Change(begin, end, new)
