"""BM25 over words, the search that an encoder has to be better than, and over groups of letters, by bm25s."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.edits.words import combining_marks
from holdfast.errors import NotInstalled
from holdfast.evaluation.dense_search import Positions, best_positions

_FORMULA = "BM25 as in Lucene, k1 1.5, b 0.75"
BM25_RECORD = f"bm25s: {_FORMULA}; lower case, words of two characters or more, English stop words left out, no "
BM25_RECORD += "stemming"
GRAM_RECORD = f"bm25s: {_FORMULA}, over letter {{letters}}-grams; lower case, one blank before, between and after words"

LexicalScores = Callable[[str], npt.NDArray[np.float64]]
"""A function from a query to its score with each document, (documents,), 0 where they have nothing in common."""


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

    index, pattern = bm25s.BM25(), rf"\w[\w{combining_marks()}]+"
    words = bm25s.tokenize(list(documents), token_pattern=pattern, show_progress=False)
    if not words.vocab:
        return np.full((len(queries), k), -1, dtype=np.int64)
    index.index(words, show_progress=False)
    asked = bm25s.tokenize(list(queries), token_pattern=pattern, return_ids=False, show_progress=False)
    nothing = np.zeros(index.scores["num_docs"])
    return np.stack([best_positions(index.get_scores(query).astype(float) if query else nothing, k) for query in asked])


def letter_grams(text: str, letters: int) -> list[str]:
    """Return the groups of neighbouring letters of a text, in lower case, a blank before, between and after its words.

    With 4 letters, ``"My cat!"`` has ``" my ", "my c", "y ca", " cat", "cat "``. A shorter text is one group; a text
    without words has none.
    """
    words = _word().findall(text.lower())
    joined = f" {' '.join(words)} "
    return [joined[at : at + letters] for at in range(max(len(joined) - letters, 0) + 1)] if words else []


@functools.cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"\w[\w{combining_marks()}]*")


def gram_scores(documents: Iterable[str], letters: int) -> LexicalScores:
    """Return the BM25 scores of letter groups (`letter_grams`) with some documents, as a function of a query.

    The index holds 8 bytes for each different group of each document; making it takes several times that.

    Raises:
        UserError: bm25s is not installed.
    """
    require_bm25()
    import bm25s

    numbers: dict[str, int] = {}
    grams = [[numbers.setdefault(gram, len(numbers)) for gram in letter_grams(text, letters)] for text in documents]
    nothing = np.zeros(len(grams))
    if not numbers:
        return lambda _: nothing
    index = bm25s.BM25()
    index.index((grams, numbers), create_empty_token=False, show_progress=False)

    def scores(query: str) -> npt.NDArray[np.float64]:
        known = [numbers[gram] for gram in letter_grams(query, letters) if gram in numbers]
        found: npt.NDArray[np.float64] = np.asarray(index.get_scores_from_ids(known), dtype=np.float64)
        return found

    return scores
