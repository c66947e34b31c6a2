"""The probability of a word after another one, by counts of a corpus and of English.

The English counts come from the files of symspellpy, so that nothing of them is copied.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.baselines.letter_model import LetterModel
from holdfast.baselines.spelling_counts import SpellingCounts
from holdfast.edits.word_frequency import dictionary_rows, english_word_counts

_PAIRS = "frequency_bigramdictionary_en_243_342.txt"
ENGLISH_STEP = 8
"""The trigrams are of every eighth English word, beside those of the corpus: a small corpus alone has too few."""


@dataclass(frozen=True, eq=False)
class EnglishCounts:
    """Counts of 82,765 English words and 243,342 pairs of words in Google's books; `total` is the sum of the words'.

    Equal to itself alone, so that what is made of it is remembered by it.
    """

    words: Mapping[str, int]
    pairs: Mapping[tuple[str, str], int]
    total: int


@functools.cache
def english_counts() -> EnglishCounts:
    """Return the counts that come with symspellpy.

    Raises:
        UserError: its files are missing.
    """
    words = english_word_counts()
    pairs = {(first, second): int(count) for first, second, count in dictionary_rows(_PAIRS)}
    return EnglishCounts(words, pairs, sum(words.values()))


@functools.lru_cache(1)
def _letters_of(english: EnglishCounts) -> LetterModel:
    return LetterModel(itertools.islice(english.words, 0, None, ENGLISH_STEP))


class WordModel:
    """The probability of words, in lower case.

    A word after another one: the counts of the pair in the corpus, smoothed (Dirichlet prior; MacKay and Peto 1995)
    with those in English, and these with the counts of the word alone. An unknown word has the probability of its
    letters, by trigrams: names and terms look like other words, mistyped words often do not.

    Args:
        counts: the counts of the corpus.
        corpus_share: the corpus' share in the probability of a word alone; English has the rest.
        corpus_prior, english_prior: how many words the smoothing counts for, in the corpus and in English.
        log_unknown: ln of the share of unknown words.
    """

    def __init__(
        self,
        counts: SpellingCounts,
        *,
        corpus_share: float,
        corpus_prior: float,
        english_prior: float,
        log_unknown: float,
    ) -> None:
        self._counts, self._english = counts, english_counts()
        self._share = corpus_share if counts.total else 0.0
        self._corpus_prior, self._english_prior, self._log_unknown = corpus_prior, english_prior, log_unknown
        own = (word for word in counts.words if word not in self._english.words)
        self._letters = _letters_of(self._english).with_words(own)

    def is_known(self, word: str) -> bool:
        """Return True for a word of English or of the corpus."""
        return word in self._english.words or word in self._counts.words

    def is_pair(self, first: str, second: str) -> bool:
        """Return True for two words that occur one after the other, in English or in the corpus."""
        return (first, second) in self._counts.pairs or (first, second) in self._english.pairs

    def is_common(self, word: str, least: int) -> bool:
        """Return True for a word of English, or one that the corpus has ``least`` times."""
        return word in self._english.words or self._counts.words.get(word, 0) >= least

    def log_capital(self, word: str) -> float:
        """Return ln of the share of a word's uses in the corpus that have a capital; 2 % of a word that it lacks."""
        capitals = self._counts.capitals.get(word, 0)
        return math.log((capitals + 0.02) / (max(capitals, self._counts.words.get(word, 0)) + 1.0))

    def log_alone(self, word: str) -> float:
        """Return ln P(word)."""
        return math.log(self._alone(word))

    def log_after(self, word: str, before: str | None) -> float:
        """Return ln P(word | the word before); ln P(word) if there is none."""
        share = self._alone(word)
        if before is None:
            return math.log(share)
        english, counts = self._english, self._counts
        if before in english.words:
            prior = self._english_prior
            share = (english.pairs.get((before, word), 0) + prior * share) / (english.words[before] + prior)
        seen, prior = counts.words.get(before, 0), self._corpus_prior
        return math.log((counts.pairs.get((before, word), 0) + prior * share) / (seen + prior))

    def _alone(self, word: str) -> float:
        english = self._english.words.get(word, 0) / self._english.total
        found = (1.0 - self._share) * english
        if self._share:
            found += self._share * self._counts.words.get(word, 0) / self._counts.total
        return found or math.exp(self._log_unknown + self._letters.log(word))
