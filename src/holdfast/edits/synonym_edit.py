"""A hold edit: words replaced by synonyms; of WordNet's, a filter keeps those that are valid in the sentence."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from holdfast.edits.edit import ENGLISH, Edit, Edited, Side, edited
from holdfast.edits.inflection import can_inflect
from holdfast.edits.substitution_form import Substitution
from holdfast.edits.tagging import Tagger
from holdfast.edits.wordnet import WordNet
from holdfast.edits.words import Words, draw_word, is_content_word

Exchange = Callable[[Words, int, random.Random], str | None]
"""A function that draws a substitute for the word at a position; None if there is none."""

_AROUND = 4  # words on each side that the tagger sees


class Validity(Protocol):
    """A judge of synonyms, such as `holdfast.attacks.valid_synonyms.ValidSynonyms`."""

    @property
    def source(self) -> str:
        """The description of the judge, for the record."""

    def valid(self, asked: Sequence[Substitution]) -> list[bool]:
        """Return, for each substitution, whether it is valid."""


def valid_words(validity: Validity | None, words: Words, place: int, candidates: Sequence[str]) -> list[str]:
    """Return the candidates for a place that are valid; all of them without a judge."""
    if validity is None:
        return list(candidates)
    valid = validity.valid([Substitution(words, place, candidate) for candidate in candidates])
    return [candidate for candidate, holds in zip(candidates, valid, strict=True) if holds]


def synonyms_at(wordnet: WordNet, tagger: Tagger | None, words: Words, place: int) -> list[str]:
    """Return WordNet's synonyms of the word at a place, inflected if lemminflect is installed.

    Args:
        wordnet: WordNet.
        tagger: restricts synonyms to the word's part of speech; None: any part of speech.
        words: the text.
        place: the number of the word.
    """
    tag = None
    if tagger is not None:
        begin = max(0, place - _AROUND)
        tag = tagger.tags(words.words[begin : place + 1 + _AROUND])[place - begin]
    return wordnet.synonyms(words.words[place], tag=tag, inflected=can_inflect())


def wordnet_synonym(wordnet: WordNet, tagger: Tagger | None, validity: Validity | None = None) -> Exchange:
    """Create a function that draws a WordNet synonym of a word, inflected if lemminflect is installed.

    Args:
        wordnet: WordNet.
        tagger: restricts synonyms to the word's part of speech; None: any part of speech.
        validity: restricts synonyms to those that are valid in the text; None: all.
    """

    def exchange(words: Words, place: int, rng: random.Random) -> str | None:
        return draw_word(valid_words(validity, words, place, synonyms_at(wordnet, tagger, words, place)), rng)

    return exchange


class SynonymEdit(Edit):
    """Replace content words by synonyms that are valid in the sentence.

    Args:
        exchange: draws a synonym of a word.
    """

    NAME: ClassVar[str] = "synonym"
    SIDE: ClassVar[Side] = "hold"
    LANGUAGE: ClassVar[str | None] = ENGLISH
    ABOUT: ClassVar[str] = "a word replaced by a synonym that is valid in the sentence"

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
        return edited(text, *changes)


def synonym_edits(wordnet: WordNet, tagger: Tagger, validity: Validity) -> list[Edit]:
    """Return the edits of this family."""
    return [SynonymEdit(wordnet_synonym(wordnet, tagger, validity))]
