"""Forms of vectors: equal to sentence-transformers' quantisation by hand, their names, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sentence_transformers.util import quantize_embeddings
from sentence_transformers.util.quantization import _dequantize_embeddings

from holdfast.encoding import normalised
from holdfast.errors import UserError
from holdfast.forms import Form, form_of, parse_forms, plain_rows

DIMENSIONS = 20


def vectors(count: int = 200, seed: int = 0) -> np.ndarray:
    return normalised(np.random.default_rng(seed).normal(0.1, 1.0, (count, DIMENSIONS))).astype(np.float32)


def test_names_are_read_and_written() -> None:
    forms = parse_forms(" int8,dim=256+int8, int8+dim=256,float32,ubinary,dim=8")
    assert [str(form) for form in forms] == ["int8", "dim=256+int8", "ubinary", "dim=8"]
    assert parse_forms(None) == []
    assert str(Form()) == "float32"
    assert [form.size(384) for form in (Form(), *forms)] == [1536, 384, 256, 48, 32]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int4", r"--as does not take 'int4' \(did you mean 'int8'\?\): a form is one of int8, uint8, binary, ubinary"),
        ("dims=256", r"does not take 'dims=256' \(did you mean 'dim=256'\?\)"),
        ("dim=" + "9" * 5000, r"N in dim=N is a whole number of 1 or more"),
        ("dim=0", r"does not take 'dim=0': N in dim=N is a whole number of 1 or more"),
        ("int8+binary", r"--as int8\+binary joins two of a kind: .*; separate forms by commas"),
        ("float32", r"--as names no form beside float32, which is measured anyway"),
    ],
)
def test_what_is_no_form_is_refused_with_the_nearest(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_forms(text)


def test_more_dimensions_than_the_model_has_are_refused_with_the_nearest() -> None:
    Form("int8", 384).require(384, "m")
    with pytest.raises(
        UserError, match=r"--as dim=9999\+int8: m has 384 dimensions \(did you mean 'dim=384\+int8'\?\)"
    ):
        Form("int8", 9999).require(384, "m")
    with pytest.raises(UserError, match=r"--as dim=21: the model has 20 dimensions"):
        Form("float32", 21).fitted(vectors())


@pytest.mark.parametrize("precision", ["int8", "uint8"])
def test_documents_in_bytes_are_those_of_sentence_transformers_read_back(precision: str) -> None:
    calibration, others = vectors(), vectors(50, seed=1)
    fitted = Form(precision).fitted(calibration)
    codes = quantize_embeddings(others, precision=precision, calibration_embeddings=calibration)  # type: ignore[arg-type]
    ranges = np.vstack([calibration.min(axis=0), calibration.max(axis=0)])
    expected = _dequantize_embeddings(codes, precision, ranges)  # type: ignore[arg-type]
    np.testing.assert_allclose(fitted.documents(others), expected, atol=1e-7)
    assert np.abs(fitted.documents(calibration) - calibration).max() <= (ranges[1] - ranges[0]).max() / 255 + 1e-6
    np.testing.assert_array_equal(fitted.queries(others), others)
    assert fitted.record() == {"bytes": DIMENSIONS, "calibrated_on": "200 texts"}


@pytest.mark.parametrize("precision", ["binary", "ubinary"])
def test_cosines_in_bits_are_hamming_distances_and_a_float_query_is_scored_against_signs(precision: str) -> None:
    own, query = vectors(50), vectors(3, seed=1)
    documents = Form(precision).fitted(own).documents(own)
    packed = quantize_embeddings(own, precision=precision)  # type: ignore[arg-type]
    packed = packed.astype(int) + (128 if precision == "binary" else 0)
    bits = np.unpackbits(packed.astype(np.uint8), axis=1)[:, :DIMENSIONS].astype(int)
    hamming = (bits[:, None] != bits[None]).sum(axis=2)
    units = normalised(documents)
    np.testing.assert_allclose(units @ units.T, 1 - 2 * hamming / DIMENSIONS, atol=1e-12)
    np.testing.assert_allclose(query @ documents.T, query @ np.where(own > 0, 1.0, -1.0).T, atol=1e-5)


def test_a_shortened_vector_keeps_its_length() -> None:
    own = vectors() * np.linspace(1.0, 3.0, 200)[:, None].astype(np.float32)
    fitted = Form("float32", 8).fitted(own)
    for found in (fitted.queries(own), fitted.documents(own)):
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(own, axis=1), rtol=1e-6)
        np.testing.assert_allclose(normalised(found), normalised(own[:, :8]), atol=1e-6)
    np.testing.assert_array_equal(Form("float32", DIMENSIONS).fitted(own).documents(own), own)


def test_a_shortened_form_is_quantised_after_it_was_shortened() -> None:
    own = vectors()
    fitted = Form("int8", 8).fitted(own)
    np.testing.assert_array_equal(
        fitted.documents(own), Form("int8").fitted(fitted.queries(own)).documents(fitted.queries(own))
    )
    assert fitted.documents(own).shape == (200, 8)


def test_a_vector_that_is_zero_or_not_finite_has_no_form() -> None:
    own = vectors(4)
    own[1], own[2, 0] = 0.0, np.nan
    for name in ("int8", "ubinary"):
        found = Form(name).fitted(vectors()).documents(own)
        np.testing.assert_array_equal(found[1:3], own[1:3])
        assert np.isfinite(found[[0, 3]]).all()
        assert Form(name).fitted(own[:1]).documents(own[:0]).shape == (0, DIMENSIONS)


def test_a_damaged_vector_of_the_sample_leaves_the_ranges() -> None:
    own = vectors(50)
    expected = Form("int8").fitted(own[1:]).documents(own[1:])
    own[0, 3] = np.nan
    np.testing.assert_array_equal(Form("int8").fitted(own).documents(own)[1:], expected)


def test_rows_without_a_form_are_plain() -> None:
    rows = [{"n": 1}, {"n": 2, "form": "float32"}, {"n": 3, "form": "int8"}]
    assert [form_of(row) for row in rows] == [None, None, "int8"]
    assert plain_rows(rows) == rows[:2]
