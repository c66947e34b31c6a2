"""BM25, the search by words that an encoder has to be better than, by bm25s."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.errors import NotInstalled
from holdfast.evaluation.dense_search import Positions, best_positions

BM25_RECORD = "bm25s: BM25 as in Lucene, k1 1.5, b 0.75; lower case, words of two characters or more, English stop "
BM25_RECORD += "words left out, no stemming"


def require_bm25() -> None:
    """Check that bm25s is installed.

    Raises:
        UserError: it is not; the message says how to get it.
    """
    if importlib.util.find_spec("bm25s") is None:
        raise NotInstalled("BM25 needs bm25s: pip install 'holdfast[retrieval]'")


def rank_by_bm25(documents: Iterable[str], queries: Sequence[str], k: int) -> Positions:
    """Return the positions of the k best documents of each query, (queries, k), -1 where none shares a word with it.

    The settings are the defaults of bm25s (`BM25_RECORD`). On a tie the earlier document comes first.

    Raises:
        UserError: bm25s is not installed.
    """
    require_bm25()
    import bm25s

    index = bm25s.BM25()
    words = bm25s.tokenize(list(documents), show_progress=False)
    if not words.vocab:
        return np.full((len(queries), k), -1, dtype=np.int64)
    index.index(words, show_progress=False)
    asked = bm25s.tokenize(list(queries), return_ids=False, show_progress=False)
    nothing = np.zeros(index.scores["num_docs"])
    return np.stack([best_positions(index.get_scores(query).astype(float) if query else nothing, k) for query in asked])
