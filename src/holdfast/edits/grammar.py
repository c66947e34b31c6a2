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

    Args:
        tagger: the tagger, which must give Penn Treebank tags.

    Raises:
        UserError: the tagger has no Penn tags, or lemminflect, which the edit needs, is not installed.
    """

    LANGUAGE = ENGLISH
    INFLECTS: ClassVar[bool] = True

    def __init__(self, tagger: Tagger) -> None:
        if not tagger.penn:
            raise UserError(f"the tagger {tagger.source} gives no Penn Treebank tags: take --tagger textblob")
        if self.INFLECTS:
            require_lemminflect(f"edits of the kind {self.kind}")
        self._reader = SentenceReader(tagger)

    @abstractmethod
    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the ways to edit a sentence, which are equally good; empty if there is none."""

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with one sentence edited, drawn from those to which the rules apply; otherwise None."""
        sentences = list(self._reader.sentences(text))
        rng.shuffle(sentences)
        for sentence in sentences:
            ways = self.ways(sentence)
            if ways:
                return edited(text, *(change for change in rng.choice(ways) if text[change[0] : change[1]] != change[2]))
        return None
