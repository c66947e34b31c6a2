"""Clean and adversarial texts as points of a plane: t-SNE of their vectors (ADCL, Figures 3 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.encoding import Exact
from holdfast.errors import UserError
from holdfast.evaluation.adversarial_space import TextPairs
from holdfast.number_ranges import in_range

DEFAULT_PERPLEXITY = 30.0
"""Perplexity of t-SNE; van der Maaten and Hinton (JMLR 2008) call 5 to 50 typical."""


@dataclass(frozen=True)
class Plane:
    """M pairs of texts as points.

    Attributes:
        pairs: the texts.
        clean: (M, 2), each axis from 0 to 1 over all 2·M points.
        adversarial: (M, 2), the same.
        perplexity: the perplexity of t-SNE.
        seed: the seed of t-SNE.
    """

    pairs: TextPairs
    clean: Exact
    adversarial: Exact
    perplexity: float
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Return ``{method, perplexity, seed, recipe, item, n, points}``: two points per pair, the clean text first."""
        sides = (
            ("clean", self.pairs.clean, self.clean),
            ("adversarial", self.pairs.adversarial, self.adversarial),
        )
        points = [
            {
                "pair": i,
                "kind": kind,
                "label": self.pairs.labels[i],
                "x": round(float(at[i, 0]), 6),
                "y": round(float(at[i, 1]), 6),
                "text": texts[i],
            }
            for i in range(len(self.pairs))
            for kind, texts, at in sides
        ]
        return {
            "method": "t-SNE",
            "perplexity": self.perplexity,
            "seed": self.seed,
            "recipe": self.pairs.recipe,
            "item": self.pairs.item,
            "n": len(self.pairs),
            "points": points,
        }


def project(
    pairs: TextPairs,
    clean: npt.ArrayLike,
    adversarial: npt.ArrayLike,
    *,
    seed: int,
    perplexity: float | None = None,
) -> Plane:
    """Project the 2·M vectors together by t-SNE, started from their two principal components.

    The same seed on the same machine gives the same points. Points that are close together are similar; distances
    between far points, and the size of the picture, mean nothing: `pair_distances` measures distances.

    Args:
        pairs: M pairs of texts.
        clean: vectors of the clean texts, (M, d).
        adversarial: vectors of the adversarial texts, (M, d).
        seed: the seed of t-SNE.
        perplexity: the approximate number of neighbours of a point; see `check_perplexity`.

    Raises:
        UserError: a seed or a perplexity is out of range, or the vectors are not finite or all the same.
    """
    from sklearn.manifold import TSNE

    in_range("seed", seed)
    vectors = np.concatenate([np.asarray(side, dtype=np.float64) for side in (clean, adversarial)])
    if not np.isfinite(vectors).all():
        raise UserError("space: the model gives vectors that are not finite, which cannot be drawn")
    if np.ptp(vectors, axis=0).max() <= np.finfo(np.float32).eps * np.abs(vectors).max():
        raise UserError("space: the model gives all texts the same vector: there is nothing to draw")
    chosen = check_perplexity(len(vectors), perplexity)
    points = TSNE(perplexity=chosen, init="pca", random_state=seed).fit_transform(vectors)
    places = points.astype(np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    places = (places - low) / np.where(high > low, high - low, 1.0)
    half = len(pairs)
    return Plane(pairs, places[:half], places[half:], chosen, seed)


def check_perplexity(points: int, wanted: float | None) -> float:
    """Return the perplexity for t-SNE of ``points`` points: ``wanted``, or if that is None 30, or less for few points.

    Raises:
        UserError: ``wanted`` is out of range.
    """
    highest = (points - 1) / 3  # above it, each point's neighbourhood is the whole picture
    if wanted is None:
        return min(DEFAULT_PERPLEXITY, max(1.0, highest))
    if not 1.0 <= wanted <= max(1.0, highest):
        raise UserError(f"--perplexity {wanted:g} does not fit {points} texts: it takes 1 to {max(1.0, highest):.4g}")
    return wanted


def drawn(pairs: TextPairs, count: int | None, seed: int) -> tuple[TextPairs, Sequence[int]]:
    """Draw ``count`` of the pairs at random, or all if there are no more; return them in order, and their rows.

    Args:
        pairs: M pairs of texts.
        count: number of pairs to draw; None for all.
        seed: the seed of the draw.

    Raises:
        UserError: ``count`` is below two, or the seed is out of range.
    """
    in_range("seed", seed)
    if count is not None:
        in_range("pairs", count, least=2)
    if count is None or count >= len(pairs):
        return pairs, range(len(pairs))
    rows = sorted(np.random.default_rng(seed).choice(len(pairs), size=count, replace=False).tolist())
    clean, adversarial, labels = (
        tuple(values[row] for row in rows) for values in (pairs.clean, pairs.adversarial, pairs.labels)
    )
    return replace(pairs, clean=clean, adversarial=adversarial, labels=labels), rows
