"""Queries without labels: sentences drawn from passages, which should find the passage that they come from."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.edits.words import Words

LEAST_WORDS, MOST_WORDS = 4, 40
"""Words of a sentence that can be a query."""
LEAST_SENTENCES = 2
"""Sentences of a passage that one is drawn from: the only sentence of a text would be the text itself."""

# A full stop, question or exclamation mark, perhaps in quotation marks, before white space and the start of a sentence.
_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[^\W_a-z])|\n+")


@dataclass(frozen=True)
class PseudoQuery:
    """A query drawn from a passage: the index of the passage, and the text."""

    passage: int
    text: str


def sentences_of(passage: str) -> list[str]:
    """Return the sentences of a passage, or its title and sentences if the title is a line of its own.

    A sentence ends with a full stop, a question mark or an exclamation mark, before a word that does not begin with a
    small letter. Abbreviations before a name ("Dr. Who") split a sentence, which makes it a shorter query.
    """
    return [part.strip() for part in _END.split(passage) if part.strip()]


def pseudo_queries(passages: Sequence[str], *, seed: int, most: int | None = None) -> list[PseudoQuery]:
    """Draw a sentence of each passage that has `LEAST_SENTENCES` or more, from those of a query's length.

    Args:
        passages: the passages; the draw for one depends on its text and the seed alone.
        seed: the random seed.
        most: number of queries, from the first passages that have any; None: from all.
    """
    found: list[PseudoQuery] = []
    for number, passage in enumerate(passages):
        if len(found) == most:
            break
        sentences = sentences_of(passage)
        usable = [each for each in sentences if LEAST_WORDS <= len(Words.of(each).words) <= MOST_WORDS]
        if len(sentences) >= LEAST_SENTENCES and usable:
            found.append(PseudoQuery(number, random.Random(f"{seed}/pseudo-query/{passage}").choice(usable)))
    return found
