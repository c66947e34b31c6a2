"""Word vectors are averaged as sentence-transformers tokenises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from holdfast.baselines.word_vectors import word_vector_model
from holdfast.edits.word_vectors import WordVectors

MATRIX = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 4], [-1.5, 0.2, 3]], dtype=np.float32)


def vectors() -> WordVectors:
    return WordVectors(["the", "cat", "dog", "It"], MATRIX, 0, 0)


def test_the_saved_model_averages_what_it_knows(tmp_path: Path) -> None:
    word_vector_model(vectors()).save_pretrained(str(tmp_path), create_model_card=False)
    model = SentenceTransformer(str(tmp_path), device="cpu")
    texts = ["the cat", "The 'cat', unknown DOG!", "It", "it", "cat cat dog", "the\tcat dog It"]
    expected = [
        MATRIX[[0, 1]].mean(axis=0),
        MATRIX[[0, 1, 2]].mean(axis=0),  # punctuation around and case are tried without
        MATRIX[3],
        np.zeros(3),  # only a capital falls back to lower case, not the other way round
        MATRIX[[1, 1, 2]].mean(axis=0),
        MATRIX.mean(axis=0),
    ]
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-7)


def test_a_text_without_known_words_is_the_zero_vector() -> None:
    encoded = word_vector_model(vectors()).encode(["", "unknown words", "cat"])
    np.testing.assert_array_equal(encoded, [[0, 0, 0], [0, 0, 0], [0, 2, 0]])


def test_stop_words_are_kept_unless_asked_for() -> None:
    dropping = word_vector_model(vectors(), drop_stop_words=True)
    np.testing.assert_allclose(dropping.encode(["the cat", "The", "dog"]), [[0, 2, 0], [0, 0, 0], [0, 0, 4]])
    np.testing.assert_allclose(word_vector_model(vectors()).encode(["the"]), MATRIX[:1])
