"""A hold edit: words replaced by WordNet synonyms, of which a filter keeps those that are valid in the sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar, Protocol

from holdfast.edits.edit import ENGLISH, Edit, Edited, Side, edited
from holdfast.edits.inflection import can_inflect
from holdfast.edits.substitution_form import Substitution
from holdfast.edits.tagging import Tagger
from holdfast.edits.wordnet import WordNet
from holdfast.edits.words import Words, draw_word, is_content_word

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


class SynonymEdit(Edit):
    """Replace content words by synonyms that are valid in the sentence.

    Args:
        wordnet: the source of synonyms.
        tagger: parts of speech.
        validity: the judge of synonyms.
    """

    NAME: ClassVar[str] = "synonym"
    SIDE: ClassVar[Side] = "hold"
    LANGUAGE: ClassVar[str | None] = ENGLISH
    ABOUT: ClassVar[str] = "a word replaced by a synonym that is valid in the sentence"

    def __init__(self, wordnet: WordNet, tagger: Tagger, validity: Validity) -> None:
        self._wordnet, self._tagger, self._validity = wordnet, tagger, validity

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """Return the text with a share of its words replaced, at least one; None if no word has a valid synonym."""
        words = Words.of(text)
        places = [place for place, word in enumerate(words.words) if is_content_word(word)]
        rng.shuffle(places)
        left = max(1, int(strength * len(words.words) + 0.5))
        changes: list[tuple[int, int, str]] = []
        for place in places:
            if len(changes) == left:
                break
            candidates = synonyms_at(self._wordnet, self._tagger, words, place)
            new = draw_word(valid_words(self._validity, words, place, candidates), rng)
            if new is not None:
                changes.append((*words.spans[place], new))
        return edited(text, *changes)


def synonym_edits(wordnet: WordNet, tagger: Tagger, validity: Validity) -> list[Edit]:
    """Return the edits of this family."""
    return [SynonymEdit(wordnet, tagger, validity)]
