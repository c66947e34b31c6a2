"""The shape of an embedding space: alignment and uniformity (Wang and Isola, ICML 2020), as SimCSE measures them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.encoding import Precision, Progress, Vectors, encode_sentences
from holdfast.errors import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

SAME_MEANING = 4.0
"""Pairs of STS-B dev with at least this score are positives (SimCSE, §4)."""

_ROWS_AT_ONCE = 1024


def alignment(vectors1: Vectors, vectors2: Vectors) -> float:
    """``E ‖f(x) − f(x⁺)‖²`` over n positive pairs of vectors (n, d), normalised first. Lower is better; at most 4."""
    return float(np.square(_unit(vectors1) - _unit(vectors2)).sum(axis=1).mean())


def uniformity(vectors: Vectors) -> float:
    """``log E exp(−2‖f(x) − f(y)‖²)`` over all pairs of different rows of (n, d), normalised first. Lower is better.

    0 when all vectors are the same; close to −4 for random directions in many dimensions.
    """
    unit = _unit(vectors)
    total = 0.0
    for start in range(0, len(unit), _ROWS_AT_ONCE):
        cosines = unit[start : start + _ROWS_AT_ONCE] @ unit.T
        total += float(np.exp(4.0 * cosines - 4.0).sum())  # ‖a − b‖² = 2 − 2 cos
    pairs = len(unit) * (len(unit) - 1)
    return float(np.log((total - len(unit)) / pairs))  # less each vector's own pair, whose term is exp(0)


def evaluate_space(
    model: SentenceTransformer,
    *,
    data: Path | None = None,
    precision: Precision = "fp32",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Alignment over the STS-B dev pairs that mean the same, uniformity over all of its distinct sentences.

    Returns:
        A result row ``{task: "space", split: "dev", n, metrics: {alignment, uniformity}, positives, …}``, n the
        distinct sentences and ``positives`` the pairs with a score of at least 4.

    Raises:
        UserError: no STS-B dev data, or a model whose vectors are not finite or are zero.
    """
    from holdfast.data.registry import load_pairs

    pairs = load_pairs("stsb", "dev", data=data)
    sentences = list(dict.fromkeys((*pairs.sentences1, *pairs.sentences2)))
    vectors = encode_sentences(model, sentences, precision=precision, progress=progress)
    row = {sentence: index for index, sentence in enumerate(sentences)}
    same = [i for i, score in enumerate(pairs.scores) if score >= SAME_MEANING]
    first, second = ([row[side[i]] for i in same] for side in (pairs.sentences1, pairs.sentences2))
    return {
        "task": "space",
        "split": "dev",
        "n": len(sentences),
        "metrics": {"alignment": alignment(vectors[first], vectors[second]), "uniformity": uniformity(vectors)},
        "positives": len(same),
        "data_sha256": pairs.sha256,
        "source": pairs.source,
    }


def _unit(vectors: Vectors) -> Any:
    exact = vectors.astype(np.float64)
    norms = np.linalg.norm(exact, axis=1, keepdims=True)
    if not (np.isfinite(norms).all() and norms.all()):
        raise UserError("space: the model gives vectors that are zero or not finite, which have no direction")
    return exact / norms
