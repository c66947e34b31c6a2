"""The sentence vectors of a corpus, a part at a time, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from holdfast.data.corpus import SpooledCorpus, shuffled
from holdfast.encoding import Vectors, encode_sentences
from holdfast.errors import UserError
from holdfast.limits import Cuts

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Sentences encoded and held together: enough to sort them by length, few enough for any memory.
_PART = 4096


def drawn_sentences(corpus: SpooledCorpus, number: int | None) -> int:
    """How many sentences `corpus_vectors` gives.

    Raises:
        UserError: ``number`` is more than the corpus holds.
    """
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
    """The vectors of sentences in an order that ``seed`` decides, (n, d) float32 at a time.

    Args:
        model: the encoder.
        corpus: where the sentences come from.
        number: how many; None: all.
        seed: of the order, and so of which are drawn.
        progress: called with (sentences done, sentences).
        cuts: what counts the sentences that are longer than the model reads.

    Raises:
        UserError: too few sentences in the corpus; a vector that is not finite.
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
