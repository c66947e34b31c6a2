"""Anisotropy and the spectrum of a space against slow references, closed forms and their invariances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.errors import UserError
from holdfast.evaluation.space import (
    anisotropy,
    effective_rank,
    evaluate_space,
    spread,
    unit_directions,
    variance_shares,
)


def some_vectors(rows: int = 9, width: int = 5, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, width)) + 0.5


def rotation(width: int, seed: int = 3) -> Any:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]


def test_anisotropy_is_the_mean_cosine_of_different_rows() -> None:
    vectors = some_vectors()
    unit = [v / np.linalg.norm(v) for v in vectors]
    slow = np.mean([unit[i] @ unit[j] for i in range(9) for j in range(9) if i != j])
    assert anisotropy(vectors) == pytest.approx(slow, abs=1e-12)


def test_anisotropy_in_closed_form() -> None:
    assert anisotropy(np.eye(4)) == pytest.approx(0.0, abs=1e-12)
    assert anisotropy(np.ones((3, 2))) == pytest.approx(1.0)
    assert anisotropy(np.array([[1.0, 0.0], [-2.0, 0.0]])) == pytest.approx(-1.0), "two rows are one pair"


def test_the_spectrum_is_that_of_the_covariance_of_directions() -> None:
    vectors = some_vectors()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    values = np.sort(np.linalg.eigvalsh(np.cov(unit.T)))[::-1]
    assert variance_shares(vectors) == pytest.approx(values / values.sum(), abs=1e-12)


def test_the_effective_rank_counts_equal_components() -> None:
    assert effective_rank(np.full(7, 1 / 7)) == pytest.approx(7.0)
    assert effective_rank(np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0), "0·log 0 is 0"
    assert effective_rank(np.array([0.5, 0.25, 0.25])) == pytest.approx(np.exp(1.5 * np.log(2)))


def test_a_simplex_spreads_evenly_over_one_dimension_less() -> None:
    shape = spread(np.eye(12))  # its mean is in the middle: eleven directions are left, all alike
    assert shape["effective_rank"] == pytest.approx(11.0)
    assert shape["variance_top_1"] == pytest.approx(100 / 11)
    assert shape["variance_top_10"] == pytest.approx(1000 / 11)


def test_neither_rotation_nor_order_nor_lengths_matter() -> None:
    vectors = some_vectors()
    lengths = np.random.default_rng(5).uniform(0.1, 9.0, size=(9, 1))
    changed = (vectors @ rotation(5) * lengths)[::-1]
    assert spread(changed) == pytest.approx(spread(vectors), abs=1e-9)


def test_what_has_no_shape_is_refused() -> None:
    with pytest.raises(UserError, match="at least two texts"):
        anisotropy(np.ones((1, 3)))
    with pytest.raises(UserError, match="the same vector"):
        variance_shares(np.ones((4, 3)))
    almost = np.ones((4, 3), dtype=np.float32)
    almost[1, 0] = np.nextafter(np.float32(1), np.float32(2))  # the last digit, as another batch would give it
    with pytest.raises(UserError, match="the same vector"):
        variance_shares(almost)
    for bad in (0.0, np.nan, np.inf):
        vectors = some_vectors()
        vectors[2] = bad
        with pytest.raises(UserError, match="no direction"):
            spread(vectors)


@pytest.fixture
def stsb(tmp_path: Path, sentences: list[str]) -> Path:
    folder = tmp_path / "stsb"
    folder.mkdir()
    rows = [(sentences[0], sentences[1], 4.0), (sentences[2], sentences[3], 1.0), (sentences[1], sentences[4], 5.0)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_vectors_can_be_handed_in(stsb: Path, make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("bert")
    asked: list[list[str]] = []

    def encode(texts: Any) -> Any:
        asked.append(list(texts))
        return model.encode(list(texts))

    handed = evaluate_space(None, data=stsb, encode=encode)  # type: ignore[arg-type]
    own = evaluate_space(model, data=stsb)
    assert [len(texts) for texts in asked] == [5], "once, for the distinct sentences"
    assert handed["metrics"] == pytest.approx(own["metrics"], abs=1e-5)


def test_the_whole_shape_only_where_it_is_asked_for(stsb: Path, make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("bert")
    assert set(evaluate_space(model, data=stsb)["metrics"]) == {"alignment", "uniformity"}
    whole = evaluate_space(model, data=stsb, whole=True)["metrics"]
    assert set(whole) == {
        *("alignment", "uniformity", "anisotropy"),
        *("variance_top_1", "variance_top_10", "effective_rank"),
    }
    assert 1.0 <= whole["effective_rank"] <= 4.0, "five vectors have at most four components"


def test_normalised_is_exact_and_leaves_its_input() -> None:
    vectors = np.array([[3.0, 4.0]], dtype=np.float32)
    assert unit_directions(vectors).tolist() == [[0.6, 0.8]]
    assert vectors.tolist() == [[3.0, 4.0]]
