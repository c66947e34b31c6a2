"""The frequency of English words, from the dictionary that the package symspellpy brings along."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from importlib import metadata
from importlib.resources import files

from holdfast.errors import UserError

_FILE = "frequency_dictionary_en_82_765.txt"
_CORPUS = 1.024e12  # words of the Google n-grams that the counts are of
_MISSING = 0.0


class WordFrequency:
    """The frequency of words on a logarithmic scale.

    Args:
        counts: the count of each lower-case word.
        total: the number of words that were counted.
        source: origin of the counts, for the record.
    """

    def __init__(self, counts: Mapping[str, int], total: float, *, source: str) -> None:
        self._counts, self._total, self.source = counts, total, source

    def per_billion(self, word: str) -> float:
        """Return log10 of the occurrences in a billion words: 0 for one, also for rarer and unknown words."""
        count = self._counts.get(word.lower(), 0)
        return max(_MISSING, math.log10(count / self._total * 1e9)) if count else _MISSING


@functools.cache
def english_frequency() -> WordFrequency:
    """Return the frequencies of 82,765 English words."""
    return WordFrequency(english_word_counts(), _CORPUS, source=f"symspellpy {metadata.version('symspellpy')} {_FILE}")


def english_words() -> frozenset[str]:
    """Return the words of that dictionary, in lower case."""
    return frozenset(english_word_counts())


@functools.cache
def english_word_counts() -> Mapping[str, int]:
    """Return the count of each word of the dictionary.

    Raises:
        UserError: symspellpy lacks its file.
    """
    return {word: int(count) for word, count in dictionary_rows(_FILE)}


def dictionary_rows(name: str) -> list[list[str]]:
    """Return the rows of a dictionary that comes with symspellpy, each a list of words and their count.

    Raises:
        UserError: symspellpy lacks the file.
    """
    try:
        text = (files("symspellpy") / name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"symspellpy has no {name}: pip install --force-reinstall symspellpy") from error
    return [line.split() for line in text.split("\n") if line.strip()]
