"""Vectors of hashed letter groups, without weights: the floor that any trained encoder should exceed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

DIMENSIONS = 384
"""Numbers of a vector: as many as all-MiniLM-L6-v2 has."""


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return the vectors of n texts, (n, `DIMENSIONS`): signed counts of groups of 3 to 5 letters within words.

    Each group adds 1 or -1 to the number that its hash names (Weinberger et al. 2009); case has no effect, and the sum
    has length 1. A text without any group has the first unit vector.
    """
    counts = _vectorizer().transform(texts).toarray()
    counts[~counts.any(axis=1), 0] = 1.0
    return np.asarray(counts, dtype=np.float32)


@functools.cache
def _vectorizer() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), n_features=DIMENSIONS, norm="l2")
