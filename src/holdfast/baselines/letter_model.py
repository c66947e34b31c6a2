"""The probability of a string of letters as a word: a trigram model, for unknown words."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Iterator


class LetterModel:
    """Letter trigrams, interpolated with bigrams and single letters.

    Args:
        words: the words, such as those that a corpus has once: they are most like those that it lacks.
        prior: number of observations that the shorter context counts for; None: as many as there are different letters
            after the context (Witten and Bell 1991).
        letters: the probability of a letter that was never seen is one in so many.
    """

    def __init__(self, words: Iterable[str], *, prior: float | None = None, letters: int = 60) -> None:
        self._grams, self._after, self._kinds = Counter[str](), Counter[str](), Counter[str]()
        self._prior, self._unseen = prior, 1.0 / letters
        self._count(words)

    def with_words(self, words: Iterable[str]) -> LetterModel:
        """Return a model of these words, too."""
        found = copy.copy(self)
        found._grams, found._after, found._kinds = self._grams.copy(), self._after.copy(), self._kinds.copy()
        found._count(words)
        return found

    def _count(self, words: Iterable[str]) -> None:
        for word in words:
            for gram in _grams(word):
                self._kinds[gram[:-1]] += not self._grams[gram]
                self._grams[gram] += 1
                self._after[gram[:-1]] += 1

    def probability(self, letters: str, *, ended: bool = True) -> float:
        """Return the probability of the letters as a word, or with ``ended=False`` as the beginning of a word."""
        return math.prod(self._shares(letters, ended))

    def log(self, word: str) -> float:
        """Return ln P(the letters of the word, and its end)."""
        return sum(map(math.log, self._shares(word, ended=True)))

    def _shares(self, letters: str, ended: bool) -> Iterator[float]:
        """Yield the probability of each letter, and of the end, after the two before it."""
        share = 0.0
        for gram in _grams(letters, ended=ended):
            before = gram[:-1]
            base = share if before else self._unseen
            prior = self._kinds[before] if self._prior is None else self._prior
            after = self._after[before]
            share = (self._grams[gram] + prior * base) / (after + prior) if after else base
            if len(gram) == 3:
                yield share


def _grams(word: str, *, ended: bool = True) -> Iterator[str]:
    """Yield for each letter, and the end, its unigram, bigram and trigram; blanks are before and after the word."""
    padded = f"  {word}{' ' * ended}"
    for end in range(3, len(padded) + 1):
        yield from (padded[end - 1 : end], padded[end - 2 : end], padded[end - 3 : end])
