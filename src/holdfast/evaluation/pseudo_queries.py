"""Queries without labels: sentences drawn from passages, which should find the passage that they come from."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.edits.words import Words

LEAST_WORDS, MOST_WORDS = 4, 40
"""Words of a sentence that can be a query; characters where no blanks part words."""
LEAST_SENTENCES = 2
"""Sentences of a passage that one is drawn from: the only sentence of a text would be the text itself."""

# A full stop, question or exclamation mark, perhaps in quotation marks, before white space and the start of a sentence.
_END = re.compile(r"(?<=[.!?।؟])[\"'”’)]*\s+(?=[\"'“‘(]*[^\W_a-z])|(?<=[。！？])[”’」』）]*(?=.)|\n+")
_LAST_WORDS = re.compile(r"(?:([^\W_]+)(\.?)[^\w.]*)?\b([^\W_]+)\.$")  # a word, its full stop, and the last word
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr st jr sr gen col lt sgt capt rev hon prof gov sen rep vs vol mt ft bzw ca nr abb bd evtl ggf inkl "
    "str vgl mme mlle".split()
)
_INITIAL = re.compile(r"[^\W\d_]\.")
_NEAR = 60
"""Characters around a full stop that tell what it is."""
_MONTH = re.compile(  # after a German ordinal
    r"(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b"
)
_START = re.compile(
    r"(?:The|An?|This|That|These|It|Its|He|She|They|We|You|His|Her|But|And|Then|There|In|On|At|If|When)\b"
)
_OF_MONTH = frozenset("jan feb mar apr aug sept oct nov dec".split())


@dataclass(frozen=True)
class PseudoQuery:
    """A query drawn from a passage: the index of the passage, and the text."""

    passage: int
    text: str


def sentences_of(passage: str) -> list[str]:
    """Return the sentences of a passage, or its title and sentences if the title is a line of its own.

    A sentence ends with a full stop, a question mark or an exclamation mark, before a word that does not begin with a
    small letter; but not after an abbreviation ("Dr. Who"), an initial ("John R. R. Tolkien", "U.S.") or the ordinal of
    a German date ("3. Mai"), unless a word follows with which sentences begin ("World War I. Then"). Other
    abbreviations split a sentence, which makes a shorter query; a sentence that ends with one is joined to the next.
    """
    parts, begin = [], 0
    for end in _END.finditer(passage):
        before = passage[max(begin, end.start() - _NEAR) : end.start()]
        if "\n" in end.group() or not _goes_on(before, passage[end.end() : end.end() + _NEAR]):
            parts.append(passage[begin : end.start()])
            begin = end.end()
    return [part.strip() for part in (*parts, passage[begin:]) if part.strip()]


def _goes_on(before: str, after: str) -> bool:
    """Return True if a full stop is that of an abbreviation, an initial or an ordinal."""
    found = _LAST_WORDS.search(before)
    if found is None or _START.match(after):
        return False
    previous, stop, last = found.groups()
    if len(last) == 1 and last.isalpha():  # of "zones A and B." the sentence ends, of "John C." it does not
        beside = bool(stop) or _INITIAL.match(after) is not None
        return previous is None or beside or last.islower() or previous[0].isupper()
    if last.lower() in _OF_MONTH:
        return after[:1].isdigit()
    return last.lower() in _ABBREVIATIONS or (len(last) < 3 and last.isdigit() and _MONTH.match(after) is not None)


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
        usable = [each for each in sentences if LEAST_WORDS <= len(Words.of(each).units) <= MOST_WORDS]
        if len(sentences) >= LEAST_SENTENCES and usable:
            found.append(PseudoQuery(number, random.Random(f"{seed}/pseudo-query/{passage}").choice(usable)))
    return found
