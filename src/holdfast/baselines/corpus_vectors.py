"""The sentence vectors of a corpus, computed once and yielded in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from holdfast.data.corpus import SpooledCorpus, shuffled
from holdfast.encoding import Vectors, encode_sentences
from holdfast.errors import UserError
from holdfast.input_limits import Cuts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Number of sentences encoded together: enough to sort them by length, few enough for any memory.
_PART = 4096


def drawn_sentences(corpus: SpooledCorpus, number: int | None) -> int:
    """Return the number of sentences that `corpus_vectors` encodes; refuse one larger than the corpus."""
    if number is not None and number > corpus.sentences:
        raise UserError(f"--sentences {number}: the corpus {corpus.source} holds {corpus.sentences:,}")
    return number or corpus.sentences


def corpus_vectors(
    model: SentenceTransformer,
    corpus: SpooledCorpus,
    number: int | None,
    *,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    cuts: Cuts | None = None,
) -> Iterator[Vectors]:
    """Yield the vectors of sentences in an order drawn with ``seed``, in parts of (n, d) float32.

    Args:
        model: the encoder.
        corpus: the corpus.
        number: number of sentences; None: all.
        seed: the seed of the order, and so of the choice of sentences.
        progress: called with (sentences done, sentences).
        cuts: counter of the sentences that exceed the model's length limit.

    Raises:
        UserError: the corpus has too few sentences, or a vector is not finite.
    """
    total = drawn_sentences(corpus, number)
    sentences = islice(shuffled(corpus, seed), total)
    done = 0
    while part := list(islice(sentences, _PART)):
        vectors = encode_sentences(model, part, cuts=cuts)
        if not np.isfinite(vectors).all():
            raise UserError("the model gives vectors that are not finite (NaN or infinity): nothing can be fitted")
        done += len(part)
        if progress is not None:
            progress(done, total)
        yield vectors
