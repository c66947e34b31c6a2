"""The words of a corpus for spelling correction: how often they and their pairs occur, in files of a folder."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from holdfast.errors import UserError
from holdfast.files import write_text

WORDS, PAIRS = "words.txt", "pairs.txt"
"""Files: a line "word count capitals" for each word; a line "first second count" for each pair, most frequent first."""

MOST_WORDS = MOST_PAIRS = 200_000
"""Number of words, and of pairs of words, that are kept, most frequent first: the words stay in memory."""
_COUNTED = 3_000_000
"""Distinct words, or pairs, that are counted at once; the rarest are forgotten when there are more."""

# Words with digits or underscores are matched whole too, so that no part of them is taken for a word. A final 's is
# matched and does not belong to the word, group 1: it stays as it is. An accent may be a character of its own.
_PART = r"\w[\w\u0300-\u036f]*"
WORD = re.compile(rf"({_PART}(?:['’](?!s\b){_PART})*)(?:['’]s\b)?")
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

Key = TypeVar("Key")


def is_letters(word: str) -> bool:
    """Return True for a word of letters, apostrophes inside it included."""
    return _LETTERS.fullmatch(unicodedata.normalize("NFC", word)) is not None


def counted_form(word: str) -> str:
    """Return a word as it is counted: in lower case, with composed accents and the apostrophe of dictionaries."""
    return unicodedata.normalize("NFC", word).lower().replace("’", "'")


@dataclass(frozen=True)
class SpellingCounts:
    """Counts of the words of a corpus, in lower case.

    Attributes:
        words: the count of each word.
        capitals: how often a word has a capital where it does not begin its text: names.
        pairs: the count of each pair of neighbours.
        total: the number of words that were counted, those that are not kept included.
        texts: the number of texts that were read.
    """

    words: Mapping[str, int]
    capitals: Mapping[str, int]
    pairs: Mapping[tuple[str, str], int]
    total: int
    texts: int

    @classmethod
    def of(cls, documents: Iterable[str]) -> SpellingCounts:
        """Count the words of a stream of texts; memory does not grow with it."""
        words, capitals = Counter[str](), Counter[str]()
        pairs = Counter[tuple[str, str]]()
        total = texts = 0
        for text in documents:
            texts += 1
            found = list(_words(text))
            total += len(found)
            lower = [counted_form(word) for _, word in found]
            words.update(lower)
            capitals.update(form for form, (at, word) in zip(lower, found, strict=True) if at and word[0].isupper())
            places = [place for place, _ in found]
            pairs.update(pair for pair, (i, j) in zip(pairwise(lower), pairwise(places), strict=True) if i + 1 == j)
            _forget_rare(words)
            _forget_rare(capitals)
            _forget_rare(pairs)
        kept = dict(words.most_common(MOST_WORDS))
        return cls(
            words=kept,
            capitals={word: capitals[word] for word in kept if capitals[word]},
            pairs=dict(pairs.most_common(MOST_PAIRS)),
            total=total,
            texts=texts,
        )

    def write(self, folder: Path) -> None:
        """Write the files `WORDS` and `PAIRS`.

        Raises:
            UserError: the folder cannot be written.
        """
        rows = (f"{word} {count} {self.capitals.get(word, 0)}\n" for word, count in self.words.items())
        write_text(folder / WORDS, "".join(rows))
        write_text(folder / PAIRS, "".join(f"{a} {b} {count}\n" for (a, b), count in self.pairs.items()))

    @classmethod
    def read(cls, folder: Path, *, total: int, texts: int) -> SpellingCounts:
        """Read the files that `write` wrote.

        Raises:
            UserError: a file is missing, or a line is none of these.
        """
        words, capitals = dict[str, int](), dict[str, int]()
        pairs = dict[tuple[str, str], int]()

        def add_word(word: str, count: str, capital: str) -> None:
            words[word] = int(count)
            if int(capital):
                capitals[word] = int(capital)

        def add_pair(first: str, second: str, count: str) -> None:
            pairs[first, second] = int(count)

        _read(folder / WORDS, add_word)
        _read(folder / PAIRS, add_pair)
        return cls(words, capitals, pairs, total, texts)


def _words(text: str) -> Iterator[tuple[int, str]]:
    """Yield the words of letters with their places among all words."""
    for place, match in enumerate(WORD.finditer(text)):
        if is_letters(match[1]):
            yield place, match[1]


def _forget_rare(counter: Counter[Key]) -> None:
    least = 2
    while len(counter) > _COUNTED:
        for key in [key for key, count in counter.items() if count < least]:
            del counter[key]
        least *= 2


def _read(file: Path, add: Callable[[str, str, str], None]) -> None:
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    add(*line.rstrip("\n").split(" "))
                except (TypeError, ValueError) as error:
                    raise UserError(f"{file}:{number} is not a word, or a pair, with its count") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: make the folder of the spelling correction again") from error
