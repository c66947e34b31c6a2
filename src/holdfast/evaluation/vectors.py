"""Vectors that several tasks share: each distinct sentence is encoded once, however many tasks hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.encoding import Precision, Progress, Vectors, encode_sentences

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Encode = Callable[[Sequence[str]], Vectors]
"""From n texts to their vectors, (n, d)."""


def encode_once(
    model: SentenceTransformer,
    sentences: Iterable[str],
    *,
    precision: Precision = "fp32",
    progress: Progress | None = None,
    shared: bool = False,
) -> Encode:
    """Encode the distinct sentences, and return what looks their vectors up.

    Args:
        model: any SentenceTransformer.
        sentences: all that will be asked for; repeated ones are encoded once.
        precision: ``"fp32"`` or ``"bf16"``.
        progress: called with (sentences done, distinct sentences).
        shared: share the work out over the processes that have joined; see `encode_sentences`.
    """
    distinct = list(dict.fromkeys(sentences))
    vectors = encode_sentences(model, distinct, precision=precision, progress=progress, shared=shared)
    row = {sentence: index for index, sentence in enumerate(distinct)}

    def look_up(asked: Sequence[str]) -> Vectors:
        return vectors[[row[sentence] for sentence in asked]]

    return look_up
