"""The edits of an audit: all families, with the resources that the audit has."""

from __future__ import annotations

import random
from typing import ClassVar

from holdfast.audit.audit_context import Linguistics
from holdfast.audit.changed_copies import Exchange
from holdfast.audit.item_rows import NotMeasured
from holdfast.edits.edit import ENGLISH, Edit, Edited, Side, edited
from holdfast.edits.edit_table import EditTable, edit_table, family_builders
from holdfast.edits.words import Words, is_content_word

WITH_OWN_ITEM = ("case.lower", "case.upper", "full-stop", "blank", "typos", "synonyms")
"""Hold edits whose items are measured in a way of their own, as in earlier versions."""


class RandomSynonyms(Edit):
    """Content words replaced by a synonym.

    Args:
        exchange: draws a synonym of a word; None if there is none.
    """

    NAME: ClassVar[str] = "synonyms"
    SIDE: ClassVar[Side] = "hold"
    LANGUAGE: ClassVar[str | None] = ENGLISH
    ABOUT: ClassVar[str] = "words replaced by a synonym"

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with a share of its words replaced, at least one; None if no word has a synonym."""
        words = Words.of(text)
        places = [place for place, word in enumerate(words.words) if is_content_word(word)]
        rng.shuffle(places)
        most = max(1, int(strength * len(words.words) + 0.5))
        changes: list[tuple[int, int, str]] = []
        for place in places:
            if len(changes) == most:
                break
            synonym = self._exchange(words, place, rng)
            if synonym is not None:
                changes.append((*words.spans[place], synonym))
        return edited(text, *changes) if changes else None


def edits_of(linguistics: Linguistics, texts: list[str]) -> EditTable:
    """Return the edits that can be made with the resources of the audit, from words of its texts."""

    def synonyms() -> tuple[Edit, ...]:
        try:
            exchange, _ = linguistics.synonym()
        except NotMeasured:  # the item of synonyms says so
            return ()
        return (RandomSynonyms(exchange),)

    families = family_builders(tagger=linguistics.tagger, wordnet=linguistics.wordnet, texts=texts)
    return edit_table({**families, "synonyms": synonyms})
