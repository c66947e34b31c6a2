"""Whitening: the affine map that gives a corpus's sentence vectors mean 0 and the identity as covariance.

Su, Cao, Liu and Ou. Whitening Sentence Representations for Better Semantics and Faster Retrieval. arXiv:2103.15316,
2021, equations 4-9 and algorithm 1: x ↦ (x − μ)W with Σ = UΛUᵀ and W = UΛ^(−1/2). The columns are sorted by falling
eigenvalue; the first k can be kept ("whitening-k"; the paper takes 256 for base and 384 for large models).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers.sentence_transformer.modules import Dense

from holdfast.errors import UserError

Array = npt.NDArray[np.float64]

# Vectors are computed in fp32: variation of at most this share of their length in a direction is rounding.
_ROUNDING = 4 * float(np.finfo(np.float32).eps)


class Moments:
    """Running number, mean and covariance of vectors of ``width`` dimensions, in float64 (Chan et al. 1979)."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.mean: Array = np.zeros(width)
        self._scatter: Array = np.zeros((width, width))

    def update(self, vectors: npt.NDArray[np.floating]) -> None:
        """Add vectors, (n, d)."""
        values = vectors.astype(np.float64)
        if not len(values):
            return
        mean = values.mean(axis=0)
        values -= mean
        shift = mean - self.mean
        total = self.count + len(vectors)
        self._scatter += values.T @ values + np.outer(shift, shift) * (self.count * len(vectors) / total)
        self.mean = self.mean + shift * (len(vectors) / total)
        self.count = total

    @property
    def covariance(self) -> Array:
        """The covariance (d, d), divided by n as in the paper; its code divides by n − 1, which changes no cosine."""
        covariance: Array = self._scatter / max(self.count, 1)
        return covariance


@dataclass(frozen=True)
class Whitening:
    """The map x ↦ (x − mean) @ weight.

    Attributes:
        mean: (d,).
        weight: (d, k), the directions of largest variance first.
        rank: number of directions with variance; k is at most this.
        kept: share of the variance in the k directions.
    """

    mean: Array
    weight: Array
    rank: int
    kept: float

    @classmethod
    def fit(cls, moments: Moments, dimensions: int | None = None) -> Whitening:
        """Compute the whitening to k = ``dimensions`` from the moments of a corpus; None: all directions with variance.

        Directions without variance (except the rounding of fp32) are left out, because the division is undefined. They
        occur if there are no more sentences than dimensions; the last layer's output of most encoders has one, because
        of its normalisation.

        Raises:
            UserError: the vectors are all the same, or ``dimensions`` is larger than the rank.
        """
        values, directions = np.linalg.eigh(moments.covariance)
        values, directions = values[::-1], directions[:, ::-1]
        length_squared = max(float(values.sum()), 0.0) + float(moments.mean @ moments.mean)
        rank = int((values > _ROUNDING**2 * length_squared).sum())
        if rank == 0:
            raise UserError(
                f"the vectors of the corpus's {moments.count:,} sentences are all the same: whitening needs sentences "
                f"that differ"
            )
        if dimensions is not None and dimensions > rank:
            raise UserError(
                f"--dimensions {dimensions}: the vectors of {moments.count:,} sentences vary in {rank} of "
                f"{len(values)} directions only: ask for at most {rank}, or give more sentences"
            )
        k = dimensions or rank
        weight = directions[:, :k] / np.sqrt(values[:k])
        return cls(moments.mean, weight, rank, float(values[:k].sum() / values[:rank].sum()))

    def __call__(self, vectors: npt.NDArray[np.floating]) -> Array:
        """Return the whitened vectors, (n, d) → (n, k), in float64."""
        whitened: Array = (vectors.astype(np.float64) - self.mean) @ self.weight
        return whitened

    def module(self) -> Dense:
        """Return the map as a native module: weight Wᵀ, bias −μW, no activation."""
        width, k = self.weight.shape
        return Dense(
            width,
            k,
            activation_function=torch.nn.Identity(),
            init_weight=torch.from_numpy(self.weight.T.astype(np.float32)).contiguous(),
            init_bias=torch.from_numpy((-self.mean @ self.weight).astype(np.float32)),
        )
