"""Texts held out of a training: by the hash of each text, so that every process and every resume has the same ones."""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.edits.words import combining_marks

Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

LARGEST_SHARE = 0.25
"""Largest share of the different texts of a source that is held out."""

_WORD = re.compile(r"\w+")


def normalised(text: str) -> str:
    """Return the words and symbols of a text in lower case, joined by blanks; the text itself if it has neither.

    Symbols are emoji and signs of currencies, but not those of ASCII; bullets and the like are punctuation.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():
        return " ".join(_WORD.findall(folded)) or text
    parts = _part_of_any_script().findall(folded)
    return " ".join(part for part in parts if part[0].isalnum() or _is_kept(part)) or text


@functools.cache
def _part_of_any_script() -> re.Pattern[str]:
    """Return the pattern of words with their vowel signs, and of other characters."""
    return re.compile(rf"\w[\w{combining_marks()}]*|[^\w\s]")


def _is_kept(part: str) -> bool:
    """Return True for a word that begins with an underscore, an emoji, and a currency sign beyond ASCII."""
    if part[0] == "_" or part.isascii():
        return part[0] == "_"
    category = unicodedata.category(part)
    return category in ("Sc", "Sk") or (category == "So" and (part >= "\U0001f000" or "\u2600" <= part <= "\u27bf"))


def key_of(text: str) -> int:
    """Return 64 bits of the SHA-256 of the normalised text: equal for texts that differ in case or punctuation."""
    return int.from_bytes(hashlib.sha256(normalised(text).encode()).digest()[:8], "big")


def keys_of(texts: Iterable[str]) -> Keys:
    """Return the keys of n texts, (n,)."""
    return np.fromiter((key_of(text) for text in texts), dtype=np.uint64)


@dataclass(frozen=True)
class HoldOut:
    """The rows of a source in the order of their keys, each text once, the held-out ones first.

    Attributes:
        rows: rows of the different texts, those with the smallest keys first.
        held: number of the first rows that are held out.
        keys: keys of the held-out texts, sorted.
    """

    rows: Rows
    held: int
    keys: Keys

    @property
    def choosing(self) -> Rows:
        """The held-out rows by which the weights are chosen: every other one."""
        return self.rows[0 : self.held : 2]

    @property
    def reporting(self) -> Rows:
        """The held-out rows that choose nothing, on which the kept weights are measured."""
        return self.rows[1 : self.held : 2]


def hold_out(keys: Keys, most: int, apart: Keys | None = None) -> HoldOut:
    """Hold out the texts with the smallest keys: twice ``most``, at most `LARGEST_SHARE` of the different texts.

    Args:
        keys: keys of all texts of a source, in its order.
        most: largest number of texts that choose, and of those that report.
        apart: keys of texts that are not held out.
    """
    distinct, rows = np.unique(keys, return_index=True)
    if apart is not None:
        free = ~np.isin(distinct, apart)
        distinct, rows = distinct[free], rows[free]
    held = min(2 * most, int(LARGEST_SHARE * len(distinct)))
    return HoldOut(rows.astype(np.int64), held, distinct[:held])


def training_rows(keys: Keys, held: Keys) -> Rows:
    """Return the rows whose text is not held out, nor differs from a held-out one only in case and punctuation."""
    return np.flatnonzero(~np.isin(keys, held)).astype(np.int64)
