"""The texts that neighbours are sought among."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.data.corpus import read_corpus
from holdfast.data.lines import MAX_ROW_CHARS
from holdfast.errors import UserError

SEARCHED_MOST = 100_000
"""Of a longer corpus so many first sentences are read: their vectors of 768 numbers take 300 MB."""


@dataclass(frozen=True)
class Searched:
    """Texts to search.

    Attributes:
        texts: in their order; what occurs twice is searched once.
        source: where they are from.
        cut: whether the source holds more of them.
    """

    texts: Sequence[str]
    source: str
    cut: bool = False

    def record(self) -> dict[str, Any]:
        """For the result: source, sentences, different ones, the SHA-256 of the sentences joined by line breaks."""
        return {
            "source": self.source,
            "sentences": len(self.texts),
            "different": len(set(self.texts)),
            "sha256": hashlib.sha256("\n".join(self.texts).encode()).hexdigest(),
            "cut": self.cut,
        }

    def require(self, k: int) -> None:
        """Refuse too few: k have to be lost, and k others have to take their places.

        Raises:
            UserError: there are no more than 2k different texts.
        """
        different = len(set(self.texts))
        if different <= 2 * k:
            raise UserError(
                f"{self.source} holds {different} different texts, and to lose {k} neighbours takes more than {2 * k} "
                "to search: give more with --search, or a smaller --k"
            )


def read_searched(source: str, *, data: Path | None) -> Searched:
    """The first sentences of a corpus.

    Args:
        source: what `read_corpus` takes.
        data: the data folder.

    Raises:
        UserError: what reading refuses; an empty corpus.
    """
    sentences = read_corpus(source, data=data, max_chars=MAX_ROW_CHARS)
    texts = list(itertools.islice(sentences, SEARCHED_MOST + 1))
    return Searched(texts[:SEARCHED_MOST], source, len(texts) > SEARCHED_MOST)
