"""Whitening against the paper's code in NumPy, and against what it promises."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from holdfast.baselines.whitening import Moments, Whitening
from holdfast.errors import UserError


def corpus_vectors(n: int = 500, d: int = 12, seed: int = 0) -> npt.NDArray[np.float32]:
    """Correlated, of different variances, far from the origin: what sentence vectors are like."""
    draw = np.random.default_rng(seed)
    mixed = draw.standard_normal((n, d)) @ draw.standard_normal((d, d)) * np.linspace(0.1, 3, d)
    return (mixed + draw.standard_normal(d) * 5).astype(np.float32)


def moments(vectors: npt.NDArray[np.float32], part: int = 77) -> Moments:
    found = Moments(vectors.shape[1])
    for start in range(0, len(vectors), part):
        found.update(vectors[start : start + part])
    return found


def as_published(vectors: npt.NDArray[np.float64], k: int) -> npt.NDArray[np.float64]:
    """Su et al., algorithm 1, as their code has it: covariance, its SVD, U Λ^(-1/2), the first k columns."""
    mean = vectors.mean(axis=0, keepdims=True)
    u, s, _ = np.linalg.svd(np.cov(vectors.T, bias=True))
    return (vectors - mean) @ (u @ np.diag(s**-0.5))[:, :k]


def test_moments_in_parts_are_those_of_the_whole() -> None:
    vectors = corpus_vectors()
    for part in (1, 77, 500):
        found = moments(vectors, part)
        assert found.count == 500
        np.testing.assert_allclose(found.mean, vectors.astype(np.float64).mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.covariance, np.cov(vectors.T.astype(np.float64), bias=True), rtol=1e-9)
    found.update(np.empty((0, 12), dtype=np.float32))
    assert found.count == 500


def test_moments_survive_a_mean_far_greater_than_the_spread() -> None:
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((4000, 3)) + 1e6
    found = Moments(3)
    for part in np.array_split(vectors, 9):
        found.update(part)
    np.testing.assert_allclose(found.covariance, np.cov(vectors.T, bias=True), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [12, 5, 1])
def test_the_vectors_are_the_published_ones(k: int) -> None:
    vectors = corpus_vectors()
    ours = Whitening.fit(moments(vectors), k)(vectors)
    theirs = as_published(vectors.astype(np.float64), k)
    signs = np.sign((ours * theirs).sum(axis=0))  # an eigenvector's sign is arbitrary
    np.testing.assert_allclose(ours, theirs * signs, atol=1e-8)


def test_the_whitened_corpus_has_mean_0_and_the_identity_as_covariance() -> None:
    vectors = corpus_vectors()
    whitened = Whitening.fit(moments(vectors))(vectors)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(whitened.T, bias=True), np.eye(12), atol=1e-9)


def test_the_directions_come_in_the_order_of_their_variance() -> None:
    vectors = corpus_vectors()
    fitted = Whitening.fit(moments(vectors), 4)
    removed = np.linalg.norm(fitted.weight, axis=0)  # 1 / standard deviation of each direction
    assert (np.diff(removed) > 0).all()
    variances = np.linalg.eigvalsh(np.cov(vectors.T.astype(np.float64), bias=True))[::-1]
    assert fitted.kept == pytest.approx(variances[:4].sum() / variances.sum())
    assert fitted.rank == 12


def test_the_module_computes_the_same() -> None:
    vectors = corpus_vectors()
    fitted = Whitening.fit(moments(vectors), 7)
    module = fitted.module()
    with torch.no_grad():
        found = module({"sentence_embedding": torch.from_numpy(vectors)})["sentence_embedding"]
    np.testing.assert_allclose(found.numpy(), fitted(vectors), atol=1e-4)
    assert module.get_embedding_dimension() == 7


def test_directions_without_variance_are_left_out() -> None:
    few = corpus_vectors(n=6)
    fitted = Whitening.fit(moments(few))
    assert (fitted.rank, fitted.weight.shape) == (5, (12, 5))
    np.testing.assert_allclose(np.cov(fitted(few).T, bias=True), np.eye(5), atol=1e-8)
    flat = corpus_vectors()
    flat[:, 3] = flat[:, 4] - 2 * flat[:, 7]  # rounded to fp32: not exactly dependent any more
    assert Whitening.fit(moments(flat)).rank == 11


def test_what_cannot_be_whitened_is_refused() -> None:
    with pytest.raises(UserError, match="vary in 5 of 12 directions only: ask for at most 5"):
        Whitening.fit(moments(corpus_vectors(n=6)), 6)
    with pytest.raises(UserError, match="all the same"):
        Whitening.fit(moments(np.full((9, 4), 0.3, dtype=np.float32)))
