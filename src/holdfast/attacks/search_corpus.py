"""The corpus in which nearest neighbours are searched."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.data.corpus import read_corpus
from holdfast.data.untrusted_lines import MAX_ROW_CHARS
from holdfast.errors import UserError

SEARCHED_MOST = 100_000
"""Maximum number of sentences read, from the beginning of a corpus: their vectors of 768 numbers take 300 MB."""


@dataclass(frozen=True)
class Searched:
    """Texts to search.

    Attributes:
        texts: the texts in order; duplicates are searched once.
        source: their source.
        cut: whether the source has more texts.
    """

    texts: Sequence[str]
    source: str
    cut: bool = False

    def record(self) -> dict[str, Any]:
        """Return the record for the result; the SHA-256 is of the sentences joined by line breaks."""
        return {
            "source": self.source,
            "sentences": len(self.texts),
            "different": len(set(self.texts)),
            "sha256": hashlib.sha256("\n".join(self.texts).encode()).hexdigest(),
            "cut": self.cut,
        }

    def require(self, k: int) -> None:
        """Raise an error if there are too few texts to displace k neighbours by k others.

        Raises:
            UserError: there are no more than 2k distinct texts.
        """
        different = len(set(self.texts))
        if different <= 2 * k:
            raise UserError(
                f"{self.source} has {different} different texts, and to displace {k} neighbours, more than {2 * k} are "
                "needed: give a larger corpus with --search, or a smaller --k"
            )


def read_searched(source: str, *, data: Path | None) -> Searched:
    """Read the first sentences of a corpus.

    Raises:
        UserError: the corpus cannot be read or is empty.
    """
    sentences = read_corpus(source, data=data, max_chars=MAX_ROW_CHARS)
    texts = list(itertools.islice(sentences, SEARCHED_MOST + 1))
    return Searched(texts[:SEARCHED_MOST], source, len(texts) > SEARCHED_MOST)
