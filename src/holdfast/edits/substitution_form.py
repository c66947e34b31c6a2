"""Rules of form for a synonym in a sentence: which substitutes are no words for this place, whatever they mean."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.edits.articles import article_of
from holdfast.edits.word_rules import is_plural
from holdfast.edits.words import Words, is_content_word

_AROUND = 4  # words on each side that the tagger sees
_LONGEST_PHRASE = 3
_STEM = 4  # letters
_SAME_SPELLING = 0.88  # organisation, organization; not dancing, dance
_IRREGULAR_SUPERLATIVES = frozenset({"best", "worst", "most", "least"})
_NO_SUPERLATIVES = frozenset("honest dishonest modest immodest earnest west rest".split())
_ARTICLES = frozenset({"a", "an"})


class Substitution(NamedTuple):
    """A word in place of another: ``word`` at ``place`` of the original text."""

    words: Words
    place: int
    word: str

    @property
    def old(self) -> str:
        """The word that is replaced."""
        return self.words.words[self.place]

    @property
    def changed(self) -> Words:
        """The changed text."""
        return self.words.exchanged(self.place, self.word)


class SenseLists(Protocol):
    """The part of `holdfast.edits.wordnet.WordNet` that the rules use."""

    def shared_senses(self, word: str, other: str, tag: str) -> tuple[float, float]:
        """Return the share of the senses of a word that another has too, and that of the other's senses."""

    def shared_ranks(self, word: str, other: str, tag: str) -> tuple[int, int]:
        """Return the rank, from 0, of the most frequent sense of each word that the other has too."""

    def is_phrase(self, words: Sequence[str]) -> bool:
        """Return True if the words are a lemma of several words."""


class TagsWords(Protocol):
    """The part of `holdfast.edits.tagging.Tagger` that the rules use."""

    def tags(self, words: Sequence[str]) -> list[str]:
        """Return the universal part of speech of each word."""


class SubstitutionForm:
    """The rules, each with the name of what it refuses; the cheapest come first.

    Args:
        wordnet: senses and phrases.
        tagger: parts of speech.
    """

    def __init__(self, wordnet: SenseLists, tagger: TagsWords) -> None:
        self._wordnet, self._tagger = wordnet, tagger

    def fault(self, asked: Substitution) -> str | None:
        """Return why a substitute is not well-formed at its place; None if no rule refuses it.

        The reasons:

        - ``word``: the substitute is a stop word, a letter or a number, or the same word.
        - ``name``: the original has a capital inside a sentence (names have no synonyms), or only the substitute has,
          or the original is an abbreviation (UK).
        - ``compound``: no space separates the original from its neighbour (well-known, www.example).
        - ``article``: "a" or "an" before the original does not fit the substitute.
        - ``ending``: only one of the two words ends in -ing.
        - ``number``: only one of the two nouns is a plural (wars, warfare).
        - ``degree``: only one of the two adjectives or adverbs is a superlative (better, best).
        - ``stem``: both words have one stem, but other endings (fence, fencing); another spelling is allowed.
        - ``phrase``: the original is part of a phrase of WordNet's (living room).
        - ``part of speech``: the tagger gives the substitute another tag than the original.
        - ``sense``: WordNet has no sense that both words share with this tag.
        - ``rare sense``: they share a rarer sense alone (small, little): neither the original's first nor one of the
          substitute's first two.
        """
        old, word = asked.old.lower(), asked.word.lower()
        if not is_content_word(asked.word) or word == old:
            return "word"
        if _is_name(asked):
            return "name"
        if _is_joined(asked.words, asked.place):
            return "compound"
        before = asked.words.words[asked.place - 1].lower() if asked.place else ""
        if before in _ARTICLES and article_of(old) != article_of(word):
            return "article"
        if old.endswith("ing") != word.endswith("ing"):
            return "ending"
        if _have_one_stem(old, word):
            return "stem"
        if self._is_in_phrase(asked.words, asked.place):
            return "phrase"
        tag = self.tag(asked.words, asked.place)
        if self.tag(asked.changed, asked.place) != tag:
            return "part of speech"
        if tag == "NOUN" and is_plural(old) != is_plural(word):
            return "number"
        if tag in ("ADJ", "ADV") and _is_superlative(old) != _is_superlative(word):
            return "degree"
        if not self._wordnet.shared_senses(old, word, tag)[0]:
            return "sense"
        rank, others_rank = self._wordnet.shared_ranks(old, word, tag)
        return "rare sense" if rank >= 1 and others_rank >= 2 else None

    def tag(self, words: Words, place: int) -> str:
        """Return the universal part of speech of a word, tagged among the words around it."""
        begin = max(0, place - _AROUND)
        return self._tagger.tags(words.words[begin : place + 1 + _AROUND])[place - begin]

    def _is_in_phrase(self, words: Words, place: int) -> bool:
        last = len(words.words)
        for first in range(max(0, place - _LONGEST_PHRASE + 1), place + 1):
            for end in range(max(place + 1, first + 2), min(last, first + _LONGEST_PHRASE) + 1):
                gaps = (words.parts[2 * i] for i in range(first + 1, end))
                if all(gap.isspace() for gap in gaps) and self._wordnet.is_phrase(words.words[first:end]):
                    return True
        return False


def _is_name(asked: Substitution) -> bool:
    """Tell a name: a capital that does not begin the text or a sentence, or one that only the substitute has."""
    old = asked.old
    if not old[0].isupper():
        return asked.word != asked.word.lower()
    if asked.words.text.isupper():
        return False
    if old.isupper() and len(old) > 1:
        return True
    if asked.place == 0:
        return False
    return not any(mark in asked.words.parts[2 * asked.place] for mark in ".!?:")


def _is_joined(words: Words, place: int) -> bool:
    """Tell a word without a space to its neighbour (well-known, www.example); before an apostrophe it is no part."""
    before = words.parts[2 * place] if place else " "
    after = words.parts[2 * place + 2] if place + 1 < len(words.words) else " "
    apart = [any(map(str.isspace, gap)) for gap in (before, after)]
    return not apart[0] or not (apart[1] or after in ("'", "’"))


def _is_superlative(word: str) -> bool:
    return word in _IRREGULAR_SUPERLATIVES or (word.endswith("est") and word not in _NO_SUPERLATIVES)


def _have_one_stem(old: str, word: str) -> bool:
    stem = min(_STEM, len(old), len(word))
    if old[:stem] != word[:stem]:
        return False
    return difflib.SequenceMatcher(None, old, word).ratio() < _SAME_SPELLING
