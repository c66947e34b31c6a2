"""Spelling correction of queries before they are encoded, with the words of a corpus: nothing is trained for it.

A word is exchanged for a near word if that is what its writer meant more probably (the noisy channel of Kernighan,
Church and Gale 1990): the probability of the words in their context (`holdfast.baselines.word_model`) times that of the
typing error (`holdfast.edits.typing_likelihood`). SymSpell finds the near words.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.baselines.abbreviations import ABBREVIATIONS
from holdfast.baselines.spelling_counts import WORD, SpellingCounts, counted_form, is_letters
from holdfast.baselines.word_model import EnglishCounts, WordModel, english_counts
from holdfast.edits.spelling_variants import spelling_variants
from holdfast.edits.typing_likelihood import TypingLikelihood

if TYPE_CHECKING:
    from symspellpy import SymSpell

SPELLING_RECORD = (
    "spelling correction by a noisy channel: words of a corpus and of English (symspellpy), typing errors as people "
    "make them, candidates by SymSpell, at most 2 edits a word"
)


@dataclass(frozen=True)
class SpellingSettings:
    """Constants of the correction, chosen with `benchmarks/spelling_correction.py`.

    Attributes:
        error_rate: the share of words that are typed wrongly.
        language_weight: the weight of the words' probability beside that of the error.
        margin: how much more probable (ln) a correction must be than the word as typed, if this is unknown.
        known_margin: the same for a word that is known: it must be much less likely in its context.
        known_ratio: how much more frequent (ln) the correction of a known word must be.
        tie: how much more probable (ln) the best correction must be than the second one; else the word stays.
        common: a word of the corpus is known from this count on; rarer ones may be errors of the corpus.
        two_edits: a word of fewer letters is corrected by one edit only.
        corpus_share, corpus_prior, english_prior, log_unknown: see `WordModel`.
    """

    error_rate: float = 0.05
    language_weight: float = 0.7
    margin: float = 1.0
    known_margin: float = 5.0
    known_ratio: float = 4.0
    tie: float = 0.7
    common: int = 3
    two_edits: int = 6
    corpus_share: float = 0.5
    corpus_prior: float = 300.0
    english_prior: float = 2e8
    log_unknown: float = -6.0


_CANDIDATES = 60
"""Near words that are judged, the most frequent first; short words have hundreds."""
_MOST_FREQUENT = math.log(0.05)
"""No word is much more frequent, in any text."""
_CACHED = 50_000
_PREFIX = 6
"""Letters of a word that SymSpell indexes: with 7, its default, the index takes 40 % more time and memory."""


_CONTRACTIONS = {
    **{
        f"{verb}nt": f"{verb}n't" for verb in "do does did is are was were have has had could would should must".split()
    },
    "im": "i'm",
    "ive": "i've",
    "weve": "we've",
    "theyve": "they've",
    "youve": "you've",
    "youre": "you're",
    "theyre": "they're",
    "youll": "you'll",
    "theyll": "they'll",
    "itll": "it'll",
    "thats": "that's",
    "whats": "what's",
    "wheres": "where's",
    "theres": "there's",
    "heres": "here's",
    "hes": "he's",
    "shes": "she's",
}
"""Contractions typed without their apostrophe that are no other words: the nearest word would often lack the *not*."""
_OF_ADDRESSES = re.compile(r"://|www\.|@|\w:?\\\w|[^\W\d_]\.[^\W\d_]|&\w+;")
"""A part of an address of the web, of mail or of a file, or a sign as HTML writes it; the run without blanks stays."""
_BRITISH = re.compile(r"(?P<ae>[ao]e(?!s?\b)(?<=\w{2}e)(?=\w{3}))|(?P<s>(?<=\w{3}i)s(?=e[sdr]?\b|ing\b|ations?\b))")
_LONGEST = 40
"""Letters of a word that is corrected, at most: longer runs are no words, and words near them are slow to find."""
_SHORT_PART = 3
"""Letters of a part of a hyphenated word (wi-fi, e-mail) that is not corrected, at most."""


class _Token(NamedTuple):
    """A word of a text: as it stands, in lower case, its place in the text, and whether it may be corrected."""

    text: str
    lower: str
    begin: int
    end: int
    open: bool


class SpellingCorrection:
    """A function that corrects the spelling of an English query, with the words of a corpus.

    - A word that is known stays, unless it is much less likely beside its neighbours than a near and frequent word.
    - Words with digits, and words with other capitals than the first letter, stay (acronyms). So do addresses (of the
      web, of mail, of files), common abbreviations in lower case (*vs*, *pdf*), and a word with two corrections of
      about the same probability.
    - A contraction without its apostrophe (*dont*) gets it, unless the corpus writes it so.
    - A capitalised word within a text is mostly a name: it becomes a word that the corpus has with a capital, or stays.
    - Two words that were typed as one are parted, and parts of a word joined, if that is more probable.

    The correction is deterministic. The words of the corpus are indexed on the first call, those of English once
    per process (seconds).

    Args:
        counts: the words of the corpus.
        settings: the constants.

    Example:
        >>> correct = SpellingCorrection.of(["Luke Kuechly registered 118 tackles."])
        >>> correct("who is Luke Kuecly")
        'who is Luke Kuechly'
    """

    def __init__(self, counts: SpellingCounts, settings: SpellingSettings | None = None) -> None:
        self.counts, self.settings = counts, settings or SpellingSettings()
        own = self.settings
        self._model = WordModel(
            counts,
            corpus_share=own.corpus_share,
            corpus_prior=own.corpus_prior,
            english_prior=own.english_prior,
            log_unknown=own.log_unknown,
        )
        self._typing = TypingLikelihood()
        self._log_error, self._log_right = math.log(own.error_rate), math.log1p(-own.error_rate)

    @classmethod
    def of(cls, documents: Iterable[str], settings: SpellingSettings | None = None) -> SpellingCorrection:
        """Return a correction with the words of a stream of texts."""
        return cls(SpellingCounts.of(documents), settings)

    def __call__(self, text: str) -> str:
        """Return the text with its spelling corrected; everything between corrected words stays."""
        tokens, parts, end, place = list(_tokens(text)), [], 0, 0
        before: str | None = None
        while place < len(tokens):
            token = tokens[place]
            new, used = self._corrected(tokens, place, before, text)
            if new is not None:
                parts += [text[end : token.begin], _capitalised(new) if token.text[0].isupper() else new]
                end = tokens[place + used - 1].end
            before = (new or token.lower).split()[-1] if is_letters(token.text) else None
            place += used
        return "".join([*parts, text[end:]])

    def _corrected(self, tokens: Sequence[_Token], place: int, before: str | None, text: str) -> tuple[str | None, int]:
        """Return what replaces a word, None if it stays, and how many words that replaces."""
        token = tokens[place]
        if not token.open:
            return None, 1
        if place + 1 < len(tokens) and text[token.end : tokens[place + 1].begin] == " ":
            joined = self._joined(tokens, place, before)
            if joined is not None:
                return joined, 2
        return self._exchanged(token, before, self._known(tokens, place + 1), first=not place), 1

    def _joined(self, tokens: Sequence[_Token], place: int, before: str | None) -> str | None:
        """Return a word and its next one as one word, if that is what was meant."""
        first, second = tokens[place].lower, tokens[place + 1].lower
        word = first + second
        if not (tokens[place + 1].open and self._model.is_known(word)):
            return None
        after = self._known(tokens, place + 2)
        both_known = self._model.is_known(first) and self._model.is_known(second)
        apart = self._in_context(before, first, second) + self._next(second, after) + self._log_right
        gain = self._in_context(before, word, after) + self._log_error + self._typing.log_split(word) - apart
        return word if gain > (self.settings.known_margin if both_known else self.settings.margin) else None

    def _exchanged(self, token: _Token, before: str | None, after: str | None, *, first: bool) -> str | None:
        """Return the correction of a word; None if it stays."""
        own, word = self.settings, token.lower
        known = self._model.is_common(word, own.common)
        if word in _CONTRACTIONS and self.counts.words.get(word, 0) < own.common:
            return _CONTRACTIONS[word]
        if len(word) < 2 or (not known and self._is_form(word)):
            return None
        name = token.text[0].isupper() and not first
        found = [
            (self._in_context(before, near, after) + error + (self._model.log_capital(near) if name else 0.0), near)
            for near, error in self._near(word, known)
            if _keeps_accents(word, near) and _american(word) != _american(near)
        ]
        if not (name or known):
            found += self._parted(word, before, after)
        if not found:
            return None
        found.sort(reverse=True)
        (best, correction), *others = found
        gain = best + self._log_error - self._in_context(before, word, after) - self._log_right
        if gain < (own.known_margin if known else own.margin) or (others and best - others[0][0] < own.tie):
            return None
        return correction

    def _is_form(self, word: str) -> bool:
        """Return True for a known word with another spelling, British or American, or with an s after it."""
        variant = spelling_variants().get(word, "")
        return self._model.is_known(variant) or (len(word) > 4 and word[-1] == "s" and self._model.is_known(word[:-1]))

    def _parted(self, word: str, before: str | None, after: str | None) -> Iterator[tuple[float, str]]:
        """Yield a word as two words that occur together, with the probability."""
        for place in range(1, len(word)):
            first, second = word[:place], word[place:]
            if self._model.is_pair(first, second):
                found = self._in_context(before, first, second) + self._next(second, after)
                yield found + self._typing.log_join(), f"{first} {second}"

    def _known(self, tokens: Sequence[_Token], place: int) -> str | None:
        """Return a word if it is known, as the context of its neighbours."""
        found = tokens[place].lower if place < len(tokens) else ""
        return found if found and self._model.is_known(found) else None

    def _in_context(self, before: str | None, word: str, after: str | None) -> float:
        return self.settings.language_weight * self._model.log_after(word, before) + self._next(word, after)

    def _next(self, word: str, after: str | None) -> float:
        return 0.0 if after is None else self.settings.language_weight * self._model.log_after(after, word)

    # --- near words ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _own_index(self) -> SymSpell:
        english = english_counts().words
        return _indexed(word for word in self.counts.words if word not in english)

    @functools.cached_property
    def _near(self) -> Callable[[str, bool], list[tuple[str, float]]]:
        """The near words of a word with ln P(word as typed | near word), remembered."""
        return functools.lru_cache(_CACHED)(self._near_words)

    def _near_words(self, word: str, known: bool) -> list[tuple[str, float]]:
        from symspellpy import Verbosity

        edits = 2 if len(word) >= self.settings.two_edits and not known else 1
        least = self._model.log_alone(word) + self.settings.known_ratio if known else -math.inf
        if least > _MOST_FREQUENT:
            return []
        found = [
            each
            for index in (_index_of(english_counts()), self._own_index)
            for each in index.lookup(word, Verbosity.ALL, max_edit_distance=edits)
            if each.distance and len(each.term) > 1
        ]
        shares = {each.term: self._model.log_alone(each.term) for each in sorted(found, key=lambda each: each.distance)}
        near = sorted((each for each in shares if shares[each] >= least), key=shares.__getitem__, reverse=True)
        near = near[:_CANDIDATES]
        return [(each, self._typing.log(each, word)) for each in near]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the index of near words, which is made again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_own_index", "_near")}

    def record(self) -> dict[str, Any]:
        """Return the constants and the size of the dictionary, for a result."""
        counts = self.counts
        sizes = {"texts": counts.texts, "words": len(counts.words), "pairs": len(counts.pairs), "total": counts.total}
        return {"settings": asdict(self.settings), "counts": sizes}


@functools.lru_cache(1)
def _index_of(english: EnglishCounts) -> SymSpell:
    return _indexed(english.words)


def _indexed(words: Iterable[str]) -> SymSpell:
    """Return an index of words, for those within two edits of another."""
    import symspellpy

    index = symspellpy.SymSpell(max_dictionary_edit_distance=2, prefix_length=_PREFIX)
    for word in words:
        index.create_dictionary_entry(word, 1)
    return index


def _tokens(text: str) -> Iterator[_Token]:
    runs = (match for match in re.finditer(r"\S+", text) if _OF_ADDRESSES.search(match[0]))
    addresses = [match.span() for match in runs]
    for match in WORD.finditer(text):
        word = match[1]
        is_open = is_letters(word) and (word.islower() or word[1:].islower() or len(word) == 1)
        is_open &= not any(begin <= match.start() < end for begin, end in addresses)
        hyphens = "-" in (text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1])
        is_open &= not (hyphens and len(word) <= _SHORT_PART)
        lower = counted_form(word) if is_letters(word) else ""
        is_open &= len(word) <= _LONGEST and lower not in ABBREVIATIONS
        yield _Token(word, lower, *match.span(1), is_open)


def _keeps_accents(word: str, near: str) -> bool:
    """Return True if a near word has all letters of a word that are not ASCII: nobody types an accent by mistake."""
    return word.isascii() or all(letter in near for letter in word if not letter.isascii())


def _american(word: str) -> str:
    """Return a word in its American spelling, as far as letters tell: words that differ by it alone are no errors."""
    return _BRITISH.sub(lambda found: "e" if found["ae"] else "z", word)


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]
