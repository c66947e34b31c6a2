"""The shape of an embedding space: alignment and uniformity (Wang and Isola 2020), anisotropy, and the spectrum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.encoding import Exact, Progress, Vectors, normalised
from holdfast.errors import UserError
from holdfast.evaluation.vectors import Encode, encode_once
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

SAME_MEANING = 4.0
"""Pairs of STS-B dev with at least this score are positives; SimCSE takes pairs with a score above it."""

_ROWS_AT_ONCE = 1024


def alignment(vectors1: Vectors, vectors2: Vectors) -> float:
    """Return ``E ‖f(x) − f(x⁺)‖²`` over n pairs of positives (n, d), normalised first. Lower is better; at most 4."""
    return float(np.square(unit_directions(vectors1) - unit_directions(vectors2)).sum(axis=1).mean())


def uniformity(vectors: Vectors) -> float:
    """Return ``log E exp(−2‖f(x) − f(y)‖²)`` over all pairs of different rows of (n, d), normalised first.

    Lower is better: 0 if all vectors are the same, close to −4 for random directions in many dimensions.

    Raises:
        UserError: there is only one vector.
    """
    unit = unit_directions(vectors)
    if len(unit) < 2:
        raise UserError("uniformity needs at least two texts")
    total = 0.0
    for start in range(0, len(unit), _ROWS_AT_ONCE):
        cosines = unit[start : start + _ROWS_AT_ONCE] @ unit.T
        total += float(np.exp(4.0 * cosines - 4.0).sum())  # ‖a − b‖² = 2 − 2 cos
    pairs = len(unit) * (len(unit) - 1)
    return float(np.log((total - len(unit)) / pairs))  # minus the pair of each vector with itself, whose term is exp(0)


def anisotropy(vectors: Vectors) -> float:
    """Return the mean cosine of all pairs of different rows of (n, d), n ≥ 2 (Ethayarajh, EMNLP 2019, §3).

    It is 0 if the directions are uniform, and 1 if all vectors have the same direction. The paper draws random pairs of
    words in context; here all pairs of sentences are used.

    Raises:
        UserError: there is only one vector.
    """
    unit = unit_directions(vectors)
    if len(unit) < 2:
        raise UserError("anisotropy needs at least two texts")
    # ‖Σ u‖² is the sum of all cosines, including those of each vector with itself.
    return float((np.square(unit.sum(axis=0)).sum() - len(unit)) / (len(unit) * (len(unit) - 1)))


def variance_shares(vectors: Vectors) -> Exact:
    """Return the share of the variance of (n, d) vectors, normalised first, along each principal component, sorted.

    Returns:
        (min(n, d),) shares, the largest first; their sum is 1.

    Raises:
        UserError: all vectors have the same direction, so there is no variance.
    """
    unit = unit_directions(vectors)
    spectrum: Exact = np.square(np.linalg.svd(unit - unit.mean(axis=0), compute_uv=False))
    if spectrum.sum() <= len(unit) * np.finfo(np.float32).eps ** 2:  # the variance that rounding to fp32 can cause
        raise UserError("space: the model gives all texts the same vector, whose spectrum is empty")
    shares: Exact = spectrum / spectrum.sum()
    return shares


def effective_rank(shares: Exact) -> float:
    """Return ``exp(−Σ p log p)`` of shares p, the effective rank (Roy and Vetterli, EUSIPCO 2007).

    It is the number of equal components with the same entropy. It is computed for the covariance matrix, whose singular
    values are the variances.
    """
    positive = shares[shares > 0.0]
    return float(np.exp(-(positive * np.log(positive)).sum()))


def spread(vectors: Vectors) -> dict[str, float]:
    """Return measures of the spread of the directions of (n, d) vectors.

    Returns:
        ``anisotropy``; ``variance_top_1`` and ``variance_top_10``, the share ×100 of the variance along the first
        principal component and the first ten; ``effective_rank``.

    Raises:
        UserError: there are fewer than two vectors, some are zero or not finite, or all have the same direction.
    """
    shares = variance_shares(vectors)
    return {
        "anisotropy": anisotropy(vectors),
        "variance_top_1": 100.0 * float(shares[0]),
        "variance_top_10": 100.0 * float(shares[:10].sum()),
        "effective_rank": effective_rank(shares),
    }


def evaluate_space(
    model: SentenceEncoder,
    *,
    data: Path | None = None,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    encode: Encode | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    """Measure alignment over the STS-B dev pairs with the same meaning, and uniformity over all its distinct sentences.

    Args:
        model: any SentenceTransformer.
        data: the folder with labelled data.
        precision: precision of the encoder.
        progress: called with (sentences done, sentences) while encoding.
        encode: source of the vectors in place of the model, e.g. if they were computed before; it is called once, with
            the distinct sentences.
        whole: add the metrics of `spread`.

    Returns:
        A result row ``{task: "space", split: "dev", n, metrics: {alignment, uniformity}, positives, …}``; n is the
        number of distinct sentences and ``positives`` the number of pairs with a score of at least 4. If the model
        encoded the sentences, the row has the number that were cut: ``truncated: {texts, of, tokens, lost_percent}``.

    Raises:
        UserError: there is no STS-B dev data, or the model gives vectors that are zero or not finite.
    """
    from holdfast.data.registry import load_pairs

    pairs = load_pairs("stsb", "dev", data=data)
    sentences = list(dict.fromkeys((*pairs.sentences1, *pairs.sentences2)))
    own = None
    if encode is None:
        encode = own = encode_once(model, sentences, precision=precision, progress=progress)
    vectors = encode(sentences)
    row = {sentence: index for index, sentence in enumerate(sentences)}
    same = [i for i, score in enumerate(pairs.scores) if score >= SAME_MEANING]
    first, second = ([row[side[i]] for i in same] for side in (pairs.sentences1, pairs.sentences2))
    metrics = {"alignment": alignment(vectors[first], vectors[second]), "uniformity": uniformity(vectors)}
    return {
        "task": "space",
        "split": "dev",
        "n": len(sentences),
        "metrics": {**metrics, **spread(vectors)} if whole else metrics,
        "positives": len(same),
        "data_sha256": pairs.sha256,
        "source": pairs.source,
        **({} if own is None else {"truncated": own.truncated(sentences)}),
    }


def unit_directions(vectors: npt.ArrayLike) -> Exact:
    """Return vectors (n, d) divided by their lengths, in fp64.

    Raises:
        UserError: a vector is zero or not finite.
    """
    units = normalised(vectors)
    if not units.any(axis=1).all():
        raise UserError("space: the model gives vectors that are zero or not finite, which have no direction")
    return units
