"""The base of the edits that follow the grammar of English."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from holdfast.edits.edit import ENGLISH, Edit, Edited, edited
from holdfast.edits.inflection import require_lemminflect
from holdfast.edits.sentences import Sentence, SentenceReader
from holdfast.edits.tagging import Tagger
from holdfast.errors import UserError

Changes = tuple[tuple[int, int, str], ...]
"""The changed parts of one way to edit a text: begin, end and new characters of each."""


class GrammaticalEdit(Edit):
    """An edit of one sentence of a text by rules of grammar.

    Attributes:
        REPEATS: whether it can be applied several times to a text.

    Args:
        tagger: the tagger, which must give Penn Treebank tags.

    Raises:
        UserError: the tagger has no Penn tags, or lemminflect is not installed.
    """

    LANGUAGE = ENGLISH
    REPEATS: ClassVar[bool] = False

    def __init__(self, tagger: Tagger) -> None:
        if not tagger.penn:
            raise UserError(f"the tagger {tagger.source} gives no Penn Treebank tags: take --tagger textblob")
        require_lemminflect(f"edits of the kind {self.kind}")
        self._reader = SentenceReader(tagger)

    @abstractmethod
    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the ways to edit a sentence, which are equally good; empty if there is none."""

    def last_ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return further ways to edit the last sentence of a text."""
        return ()

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with one sentence edited, drawn from those to which the rules apply; otherwise None.

        An edit with `REPEATS` is applied several times where ``strength`` asks for more changed words than one.
        """
        sentences = list(self._reader.sentences(text))
        last = sentences[-1:]
        rng.shuffle(sentences)
        wanted = max(1, round(strength * sum(len(sentence) for sentence in sentences))) if self.REPEATS else 1
        changes: list[tuple[int, int, str]] = []
        for sentence in sentences:
            ways = [*self.ways(sentence), *(self.last_ways(sentence) if last and sentence is last[0] else ())]
            rng.shuffle(ways)
            for way in ways:
                if wanted > 0 and not any(_overlap(one, other) for one in way for other in changes):
                    stopped = (_with_one_full_stop(text, sentence, change) for change in way)
                    changes += [change for change in stopped if text[change[0] : change[1]] != change[2]]
                    wanted -= 1
            if wanted <= 0:
                break
        return edited(text, *changes) if changes else None


def _with_one_full_stop(text: str, sentence: Sentence, change: tuple[int, int, str]) -> tuple[int, int, str]:
    """Return a change with one full stop where an abbreviation, such as *the U.S.*, comes to or leaves the end."""
    begin, end, new = change
    ends = end == sentence[-1].end and text[begin:end].endswith(".")
    if text[end : end + 1] == "." and (new.endswith(".") or (not new and text[begin - 1 : begin] == ".")):
        return (begin, end, new[:-1]) if new else (begin, end + 1, new)
    return (begin, end, f"{new}.") if ends and new and new[-1] not in ".?!" else change


def _overlap(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
