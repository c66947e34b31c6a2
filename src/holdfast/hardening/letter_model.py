"""The probability that an unknown word has given letters: a trigram model of the rarest words of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

_END = "\n"
_PRIOR = 5.0  # weight of the shorter context, in observations


class LetterModel:
    """Letter trigrams, interpolated with bigrams and single letters.

    Args:
        words: the words; those that a corpus has once are most like those that it lacks.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        self._contexts: Counter[str] = Counter()
        for word in words:
            padded = f"{_END}{_END}{word}{_END}"
            for at in range(2, len(padded)):
                for begin in (at - 2, at - 1, at):
                    self._counts[padded[begin : at + 1] + str(at - begin)] += 1
                    self._contexts[padded[begin:at] + str(at - begin)] += 1

    def probability(self, letters: str, *, ended: bool = True) -> float:
        """Return the probability of the letters as a word, or with ``ended=False`` as the beginning of a word."""
        padded, found = f"{_END}{_END}{letters}{_END * ended}", 1.0
        for at in range(2, len(padded)):
            share = 1.0 / 30
            for begin in (at, at - 1, at - 2):
                order = str(at - begin)
                seen = self._counts[padded[begin : at + 1] + order]
                share = (seen + _PRIOR * share) / (self._contexts[padded[begin:at] + order] + _PRIOR)
            found *= share
        return found

    @staticmethod
    def unseen_share(counts: Mapping[str, int]) -> float:
        """Return the share of words of a new text that the corpus lacks, after Good and Turing; at least one word's."""
        return max(1, sum(count == 1 for count in counts.values())) / max(1, sum(counts.values()))
