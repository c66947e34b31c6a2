"""Vectors that several tasks share: each distinct sentence is encoded once for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.encoding import Progress, Vectors, encode_sentences
from holdfast.input_limits import Cuts
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Encode = Callable[[Sequence[str]], Vectors]
"""A function from n texts to their vectors, (n, d)."""


class Encoded:
    """Vectors of texts, looked up by the texts.

    Args:
        sentences: n different texts.
        vectors: (n, d).
        cuts: the record of the sentences that were cut.
    """

    def __init__(self, sentences: Sequence[str], vectors: Vectors, cuts: Cuts) -> None:
        self._row = {sentence: index for index, sentence in enumerate(sentences)}
        self._vectors, self._cuts = vectors, cuts

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some of the texts, (len(texts), d)."""
        return self._vectors[[self._row[sentence] for sentence in texts]]

    def truncated(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return the number of cut texts among some distinct texts, in the form of `Cuts.record`."""
        distinct = set(texts)
        return Cuts(self._cuts.tokens, len(distinct), len(distinct & (self._cuts.kept or set()))).record()


def encode_once(
    model: SentenceTransformer,
    sentences: Iterable[str],
    *,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    shared: bool = False,
) -> Encoded:
    """Encode the distinct sentences, and return a look-up of their vectors.

    Args:
        model: any SentenceTransformer.
        sentences: all sentences that will be looked up; repeated ones are encoded once.
        precision: ``"fp32"`` or ``"bf16"``.
        progress: called with (sentences done, distinct sentences).
        shared: divide the work among the processes that have joined; see `encode_sentences`.
    """
    distinct = list(dict.fromkeys(sentences))
    cuts = Cuts(kept=set())
    vectors = encode_sentences(model, distinct, precision=precision, progress=progress, shared=shared, cuts=cuts)
    return Encoded(distinct, vectors, cuts)
