"""Long texts lose what no token comes from, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from holdfast import encoding, shortening
from holdfast.attacks.classifier import tokenise
from holdfast.attacks.encoder_targets import characters_read
from holdfast.encoding import encode_sentences
from holdfast.shortening import shortened


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortening, "_LEAST", 64)


def words(texts: list[str]) -> list[int]:
    return [min(len(text.split()), 10) for text in texts]


def test_what_fills_the_model_is_kept_twice() -> None:
    long = "dog " * 1000
    (kept,) = shortened([long], 10, words)
    assert kept == long[:320]  # 16 characters a token fill it; as many again follow


def test_a_text_of_few_tokens_is_kept_as_far_as_they_go() -> None:
    blank = " " * 2000 + "dog " * 1000
    (kept,) = shortened([blank], 10, words)
    assert words([kept[: len(kept) // 2]]) == [10]
    assert shortened([" " * 5000], 10, words) == [" " * 5000]


@pytest.mark.parametrize("limit", [None, 0, 10**30])
def test_without_a_limit_and_below_it_texts_stay(limit: int | None) -> None:
    assert shortened(["dog " * 1000], limit, words) == ["dog " * 1000]
    assert shortened(["dog " * 30], 10, words) == ["dog " * 30]


def test_a_model_that_reads_the_end_is_given_the_end(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("bert", pooling="mean")
    model.tokenizer.truncation_side = "left"
    texts = ["the dog runs " * 400 + end for end in ("", "a cat", "in the big red park")]
    ours = encode_sentences(model, texts)
    np.testing.assert_allclose(ours, model.encode(texts), atol=1e-6)
    assert np.abs(ours[1:] - ours[:1]).max(axis=1).min() > 1e-3, "their ends differ, and are read"
    assert [characters_read(model, text) for text in texts] == [len(text.rstrip()) for text in texts]
    read = tokenise(model.tokenizer, [(text,) for text in texts], 16)["input_ids"]
    assert read == [model.tokenizer(text, truncation=True, max_length=16)["input_ids"] for text in texts]


def test_vectors_of_long_texts_are_those_of_the_whole_text(
    make_encoder_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_encoder_model("bert", pooling="mean")
    texts = ["the old man sleeps on the big red bed " * 400, "   a dog runs, " * 900, "a cat eats"]
    seen: list[int] = []
    real = encoding.preprocess_texts

    def watched(of: Any, sentences: list[str], role: Any = None) -> dict[str, Any]:
        seen.extend(map(len, sentences))
        return real(of, sentences, role)

    monkeypatch.setattr(encoding, "preprocess_texts", watched)
    ours = encode_sentences(model, texts)
    np.testing.assert_allclose(ours, model.encode(texts), atol=1e-6)
    assert max(seen) <= 2 * 16 * model.max_seq_length, "a long text was tokenised whole"
