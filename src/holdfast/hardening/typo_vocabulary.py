"""The most probable misspellings of a corpus's words, for entries of a vocabulary that copy the right words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.baselines.letter_model import LetterModel
from holdfast.edits.typing_outcomes import outcomes
from holdfast.edits.typing_rates import MISSPELLING, SLIP, TypingRates, typing_rates
from holdfast.edits.word_frequency import english_words

_LETTERS = re.compile(r"[^\W\d_]+")
SHORTEST = 4
"""Letters of a misspelling, at least: shorter strings are too often abbreviations and names."""
POSTERIOR = 0.9
"""Probability that an entry is a misspelling of its word and of no other, and begins no unknown word, at least."""
ERROR_RATE = 0.03
"""Share of mistyped words in the texts for which the entries are meant, against which unknown words are weighed."""
_PRIOR, _NUMBER_OF_LETTERS = 5.0, 30  # of the model of unknown words
_FIRST_LOOK = 1000  # words, after which improbable misspellings are left out
_SPARE = 2.0  # candidates per entry that is wanted, as guards drop some
_LARGEST = 0.2  # share of a word's most probable misspelling among all, at most


@dataclass(frozen=True)
class Misspelling:
    """A misspelling and its right word.

    Attributes:
        share: expected share of the misspelling among all words of a text with `ERROR_RATE`.
    """

    typed: str
    word: str
    share: float


def count_words(texts: Iterable[str], normalise: Callable[[str], str] = str) -> Counter[str]:
    """Return how often each run of letters occurs in the texts, in lower case, after a tokeniser's normalisation."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_LETTERS.findall(normalise(text).lower()))
    return counts


def typo_vocabulary(
    word_counts: Mapping[str, int],
    *,
    size: int,
    vocabulary: Collection[str],
    listed: Mapping[str, Collection[str]] | None = None,
    rates: TypingRates | None = None,
    error_rate: float = ERROR_RATE,
    posterior: float = POSTERIOR,
) -> list[Misspelling]:
    """Return the most probable misspellings, the most probable first.

    A misspelling of one operation has the probability that `holdfast.edits.typing_rates` gives it, times the share of
    its word in the corpus. It is left out if it occurs in the corpus or in symspellpy's English dictionary, has fewer
    than `SHORTEST` letters or is the beginning of its word, or if the probability of its word is below ``posterior``,
    given all words of the corpus and an unknown word that begins with the same letters: Good and Turing's estimate of
    the share of unseen words, times the probability of the letters by a trigram model of the corpus's words that occur
    once. Nothing is drawn: equal counts give equal entries.

    Args:
        word_counts: counts of lower-case words, from `count_words`.
        size: number of misspellings, at most.
        vocabulary: entries of the tokeniser's vocabulary; right words are among them, misspellings never.
        listed: misspellings by word from a list, which are as probable as the word's most probable one.
        rates: rates of typing errors; None: the fitted ones.
        error_rate: share of mistyped words; a lower one leaves out more of what may be unknown words.
        posterior: see `POSTERIOR`.
    """
    known = english_words()
    once = [word for word, count in word_counts.items() if count == 1]
    letters, unseen = LetterModel(once, prior=_PRIOR, letters=_NUMBER_OF_LETTERS), unseen_share(word_counts)
    found: list[Misspelling] = []
    candidates = _candidates(word_counts, size, rates or typing_rates(), listed or {})
    for typed, (score, word, total) in sorted(candidates.items(), key=lambda each: (-each[1][0], each[0])):
        if len(found) == size:
            break
        if len(typed) < SHORTEST or typed in word_counts or typed in known or typed in vocabulary:
            continue
        if word not in vocabulary or word.startswith(typed) or score < posterior * total:
            continue
        unknown = unseen * letters.probability(typed, ended=False)  # WordPiece would split a longer one by the entry
        if score * error_rate >= posterior * (total * error_rate + unknown):
            found.append(Misspelling(typed, word, score * error_rate))
    return found


def unseen_share(counts: Mapping[str, int]) -> float:
    """Return the share of words of a new text that the corpus lacks, after Good and Turing; at least one word's."""
    return max(1, sum(count == 1 for count in counts.values())) / max(1, sum(counts.values()))


Scored = dict[str, tuple[float, str, float]]


def _candidates(
    counts: Mapping[str, int], size: int, rates: TypingRates, listed: Mapping[str, Collection[str]]
) -> Scored:
    """Return by wrong word: the probability of the best right one, that one, and the probability of all.

    All are shares of the mistyped words of a text. What is much less probable than ``size`` others is left out.
    """
    words = sorted(
        (word for word in counts if word.isascii() and len(word) > 1), key=lambda word: (-counts[word], word)
    )
    kinds = dict(zip(words, rates.kinds(words), strict=True))
    mass = [sum(counts[word] * kinds[word][kind] for word in words) or 1.0 for kind in (0, 1)]
    mixture = rates.shares("mixture", "")
    found: Scored = {}
    least, next_look = 0.0, _FIRST_LOOK
    for number, word in enumerate(words, 1):
        own: dict[str, float] = {}
        for kind, name in enumerate((MISSPELLING, SLIP)):
            share = mixture[name] * counts[word] * kinds[word][kind] / mass[kind]
            if share * _LARGEST > least:
                for typed, part in outcomes(rates, name, word, least / share).items():
                    own[typed] = own.get(typed, 0.0) + share * part
        own |= dict.fromkeys(listed.get(word, ()), max(own.values(), default=0.0))
        for typed, score in own.items():
            best, right, total = found.get(typed, (0.0, word, 0.0))
            found[typed] = (score, word, total + score) if score > best else (best, right, total + score)
        if number == next_look:
            least, next_look = _least(found, size), 2 * number
    return found


def _least(found: Scored, size: int) -> float:
    """Return a probability that no entry falls short of, less what the second best may have of it."""
    place = len(found) - int(_SPARE * size)
    if place <= 0:
        return 0.0
    scores = np.fromiter((score for score, _, _ in found.values()), float, len(found))
    return float(np.partition(scores, place)[place]) * (1.0 - POSTERIOR)
