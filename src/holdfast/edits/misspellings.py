"""Misspellings of words as people wrote them, from a file of the user (``--misspellings``)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.data.untrusted_lines import MAX_ROW_CHARS, numbered_lines, open_bytes
from holdfast.edits.words import Words
from holdfast.errors import UserError

SHARE = 0.5
"""Share of the mistyped words with known misspellings that get one of them; the others get an error by the rates."""
_HEADER = ("word", "misspellings")
_ARROW = "->"
_FORMS = "write WORD, a tab and its misspellings with blanks between them, or MISSPELLING->WORD"


@dataclass(frozen=True)
class Misspellings:
    """Known misspellings of words.

    Attributes:
        by_word: the different misspellings of each word; both are in lower case.
        share: how likely one of them is drawn for a mistyped word that has some, in [0, 1].
    """

    by_word: Mapping[str, tuple[str, ...]]
    share: float = SHARE

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"share must be between 0 and 1, not {self.share}")

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], share: float = SHARE) -> Misspellings:
        """Collect pairs of a word and a misspelling, without regard to case.

        Left out are pairs that could not be used, or would not be a misspelling: words with a blank, an apostrophe or a
        hyphen (`Words` parts them), misspellings with a digit ("four", "4"), and those that differ in case only.
        """
        found: dict[str, dict[str, None]] = {}
        for word, misspelling in ((word.lower(), misspelling.lower()) for word, misspelling in pairs):
            if word != misspelling and Words.of(word).words == (word,) and not any(map(str.isdigit, misspelling)):
                found.setdefault(word, {})[misspelling] = None
        return cls({word: tuple(misspellings) for word, misspellings in found.items()}, share)

    def record(self) -> dict[str, str | int | float]:
        """Return the entry of a protocol: the numbers of words and misspellings, the share, and a hash of all pairs."""
        pairs = sorted(f"{word}\t{each}" for word, misspellings in self.by_word.items() for each in misspellings)
        digest = hashlib.sha256("\n".join(pairs).encode()).hexdigest()
        return {"words": len(self.by_word), "misspellings": len(pairs), "share": self.share, "sha256": digest}

    def draw(self, word: str, rng: random.Random) -> str | None:
        """Return a known misspelling in the case of the word, with probability ``share``; else None.

        Nothing is drawn from ``rng`` for a word without known misspellings.
        """
        known = self.by_word.get(word.lower())
        if not known or rng.random() >= self.share:
            return None
        misspelling = rng.choice(known)
        if len(word) > 1 and word.isupper():
            return misspelling.upper()
        return misspelling[:1].upper() + misspelling[1:] if word[:1].isupper() else misspelling


def read_misspellings(path: Path, share: float = SHARE) -> Misspellings:
    """Read a list of misspellings, ``.gz`` and ``.zst`` too.

    A line is ``WORD<tab>MISSPELLING MISSPELLING...`` (a first line ``word<tab>misspellings`` is a header), or
    ``MISSPELLING->WORD`` or ``MISSPELLING->WORD, WORD...``, as Wikipedia lists common misspellings. Empty lines are
    skipped, and words may be repeated.

    Args:
        path: the file, UTF-8.
        share: see `Misspellings`.

    Raises:
        UserError: the file cannot be read, a line has another form (with ``file:line``), or there is no misspelling.
    """
    pairs: list[tuple[str, str]] = []
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path), MAX_ROW_CHARS):
            if line.strip() and not (number == 1 and tuple(line.split("\t")) == _HEADER):
                pairs += _pairs(line, f"{path}:{number}")
    found = Misspellings.of(pairs, share)
    if not found.by_word:
        raise UserError(f"{path} has no misspelling of a word: {_FORMS}")
    return found


def _pairs(line: str, where: str) -> list[tuple[str, str]]:
    """Return the words of a line with their misspellings."""
    if "\t" in line:
        word, _, misspellings = line.partition("\t")
        pairs = [(word.strip(), misspelling) for misspelling in misspellings.split()]
        whole = "\t" not in misspellings
    else:
        misspelling, arrow, words = line.partition(_ARROW)
        pairs = [(word.strip(), misspelling.strip()) for word in words.split(",")]
        whole = bool(arrow) and _ARROW not in words
    if not whole or not pairs or not all(word and misspelling for word, misspelling in pairs):
        raise UserError(f"{where}: this is not a word with its misspellings: {_FORMS}")
    return pairs
