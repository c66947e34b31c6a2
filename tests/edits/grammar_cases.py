"""What the tests of the grammatical edits share: the tagger, every text that an edit can make, and odd texts."""

from __future__ import annotations

import functools
import random

from holdfast.edits.edit import Edited, edited
from holdfast.edits.grammar import GrammaticalEdit
from holdfast.edits.grammatical_edits import grammatical_edits
from holdfast.edits.tagging import TextBlobTagger

SENTENCES = (
    "The old baker opens the shop at seven.",
    "In 1990, she moved to a small town in Kent.",
    "The bridge was designed by a young engineer in 1871.",
    "The children didn't see any foxes, and they're still looking.",
    "They have never painted the red, green and blue doors.",
    "Our neighbours may sell the house on 3 May 2004.",
    "why did the committee reject the plan",
    'He said "no" and left. The dog was sleeping.',
)
ODD_TEXTS = ("", " ", ".", "?!", "not", "n't", "''", "No", '"', "(", ", and", "A" * 300, "i am", "THE DOG IS BARKING.")


@functools.cache
def tagger() -> TextBlobTagger:
    return TextBlobTagger()


@functools.cache
def edit(name: str) -> GrammaticalEdit:
    (found,) = [one for one in grammatical_edits(tagger()) if name == one.NAME]
    assert isinstance(found, GrammaticalEdit)
    return found


def made(name: str, text: str) -> set[str]:
    """Return every text that the edit can make of a text."""
    one = edit(name)
    found: set[str] = set()
    sentences = one._reader.sentences(text)
    for sentence in sentences:
        for way in (*one.ways(sentence), *(one.last_ways(sentence) if sentence is sentences[-1] else ())):
            changed = edited(text, *way)
            if changed:
                found.add(changed.text)
    return found


def once(name: str, text: str, seed: int = 0, strength: float = 0.0) -> Edited | None:
    return edit(name)(text, random.Random(f"{seed}/{name}"), strength)
