"""All edits that replace words of an English text by rules and lists."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.edits.antonyms import antonym_edits
from holdfast.edits.edit import Edit
from holdfast.edits.names import name_edits
from holdfast.edits.numbers import number_edits
from holdfast.edits.quantifiers import quantifier_edits
from holdfast.edits.spelling_variants import spelling_edits
from holdfast.edits.tagging import Tagger
from holdfast.edits.wordnet import WordNet


def lexical_edits(texts: Iterable[str], tagger: Tagger, wordnet: WordNet | None = None) -> tuple[Edit, ...]:
    """Return the edits that replace words, of both sides.

    Args:
        texts: texts whose names and nouns stand in for others.
        tagger: the part-of-speech tagger.
        wordnet: source of further antonyms; None: those listed in `holdfast.edits.antonyms` alone.
    """
    return (
        *antonym_edits(wordnet, tagger),
        *number_edits(),
        *quantifier_edits(tagger),
        *name_edits(texts, tagger),
        *spelling_edits(),
    )
