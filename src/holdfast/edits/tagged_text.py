"""A text as words with their places and parts of speech, and the replacement of words with a right article."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from holdfast.edits.articles import article_of
from holdfast.edits.edit import Edited, edited
from holdfast.edits.tagging import Tagger
from holdfast.edits.words import Words, in_case_of

# Marks that make one word of two: a hyphen, an apostrophe, a slash, a point inside an abbreviation or number.
_JOINING = frozenset("-\u2010\u2011'\u2019/&@#_.+*=%$")
_SENTENCE_END = re.compile(r"[.!?:;\"\u201c\u201d()\n]")


class TaggedText:
    """A text with its words, in lower case too, and their parts of speech, tagged when first asked for.

    Attributes:
        text: the text.
        words: its words; see `holdfast.edits.words.Words`.
        lower: the words in lower case.
        spans: the begin and end of each word, in characters.
    """

    def __init__(self, text: str, tagger: Tagger) -> None:
        split = Words.of(text)
        self.text, self.words, self.spans = text, split.words, split.spans
        self.lower = tuple(word.lower() for word in self.words)
        self._gaps, self._tagger = split.parts[::2], tagger

    @functools.cached_property
    def tags(self) -> Sequence[str]:
        """The universal part of speech of each word."""
        return self._tagger.tags(self.words)

    def joined(self, at: int) -> bool:
        """Return True if the gap before word ``at`` is white space: both words belong to one phrase."""
        return 0 < at < len(self.words) and self._gaps[at].isspace()

    def before(self, at: int) -> int | None:
        """Return the place of the word before, None at the begin of a phrase."""
        return at - 1 if self.joined(at) else None

    def after(self, at: int) -> int | None:
        """Return the place of the word after, None at the end of a phrase."""
        return at + 1 if self.joined(at + 1) else None

    def ahead(self, at: int) -> Iterator[int]:
        """Yield the places of the words behind word ``at`` up to the end of its sentence."""
        for place in range(at + 1, len(self.words)):
            if self.opens_sentence(place):
                return
            yield place

    def opens_sentence(self, at: int) -> bool:
        """Return True if word ``at`` is the first of a sentence, a quotation or a part after a colon."""
        return at == 0 or _SENTENCE_END.search(self._gaps[at]) is not None

    def is_part(self, at: int, last: int | None = None) -> bool:
        """Return True if the words ``at`` to ``last`` are a part of a longer one: a compound, possessive or number."""
        begin, end = self.spans[at][0], self.spans[at if last is None else last][1]
        behind = self.text[end : end + 2]
        return (begin > 0 and self.text[begin - 1] in _JOINING) or (
            behind[:1] in _JOINING and behind[:1] != "" and (behind[1:].isalnum() or behind[0] in "%'\u2019")
        )

    def is_name(self, at: int) -> bool:
        """Return True if word ``at`` has a capital that is not that of a sentence, or stands before such a word."""
        if not self.words[at][:1].isupper():
            return False
        if not self.opens_sentence(at) or self.words[at][1:] != self.lower[at][1:]:
            return True
        after = self.after(at)
        return after is not None and self.words[after][:1].isupper()


def replace_words(tagged: TaggedText, at: int, last: int, new: str) -> Edited | None:
    """Return the text with the words ``at`` to ``last`` replaced, in their case; None if the article is not known.

    An "a" or "an" before them changes if the new word needs the other one.
    """
    begin, end = tagged.spans[at][0], tagged.spans[last][1]
    cased = in_case_of(tagged.words[at], new)
    changes = [(begin, end, cased)]
    before = tagged.before(at)
    if before is not None and tagged.lower[before] in ("a", "an"):
        article = article_of(cased)
        if article is None:
            return None
        if article != tagged.lower[before]:
            changes.append((*tagged.spans[before], in_case_of(tagged.words[before][:1], article)))
    return edited(tagged.text, *changes)
