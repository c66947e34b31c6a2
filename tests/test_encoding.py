"""Encoding gives what ``model.encode`` gives, does each distinct sentence once, and leaves the model as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from holdfast.encoding import encode_batches, encode_sentences, normalised, plan_batches, tokenise
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import Role, preprocess_texts


@pytest.fixture
def model(masked_lm: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(masked_lm), device="cpu")


@pytest.fixture
def sentences() -> list[str]:
    """Forty sentences of 1 to 30 words, some of them twice, in no order of length."""
    draw = random.Random(0)
    words = ["the", "man", "woman", "dog", "runs", "sleeps", "on", "in", "park", "bed", "red", "old"]
    distinct = [" ".join(draw.choices(words, k=draw.randint(1, 30))) for _ in range(30)]
    return [*distinct, *draw.choices(distinct, k=10)]


class Spy:
    """Counts what goes through the model."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.batches: list[tuple[int, int]] = []
        self.in_training = False
        model[0].register_forward_pre_hook(self.note)

    def note(self, module: torch.nn.Module, args: tuple[dict[str, torch.Tensor], ...]) -> None:
        rows, length = args[0]["input_ids"].shape
        self.batches.append((rows, length))
        self.in_training |= module.training


def test_same_as_the_models_own_encode_in_the_same_order(model: SentenceTransformer, sentences: list[str]) -> None:
    vectors = encode_sentences(model, sentences, tokens_per_batch=100)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, model.encode(sentences), atol=1e-5)
    # Rows that differ, so that a wrong order could not have passed.
    assert np.unique(vectors.round(3), axis=0).shape[0] > 25


def test_distinct_sentences_pass_once_and_batches_keep_the_budget(
    model: SentenceTransformer, sentences: list[str]
) -> None:
    spy = Spy(model)
    encode_sentences(model, sentences, tokens_per_batch=100)
    assert sum(rows for rows, _ in spy.batches) == len(set(sentences)) == 30
    assert all(rows * length <= 100 for rows, length in spy.batches)
    assert [length for _, length in spy.batches] == sorted((length for _, length in spy.batches), reverse=True)
    assert len(spy.batches) > 3


@pytest.mark.parametrize("side", ["left", "right"])
def test_few_texts_are_tokenised_once_for_lengths_and_batches(
    model: SentenceTransformer, sentences: list[str], side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.tokenizer.padding_side = side
    asked: list[int] = []

    def preprocess(model: SentenceTransformer, texts: list[str], role: Role | None) -> dict[str, Any]:
        asked.append(len(texts))
        return dict(preprocess_texts(model, texts, role))

    monkeypatch.setattr("holdfast.encoding.preprocess_texts", preprocess)
    batches = list(tokenise(model, sentences, tokens_per_batch=100))
    assert asked == [len(sentences)]
    assert len(batches) > 3
    for batch in batches:
        alone = preprocess_texts(model, [sentences[row] for row in batch.rows], None)
        assert list(batch.features) == list(alone)
        torch.testing.assert_close(batch.features["input_ids"], alone["input_ids"], rtol=0, atol=0)
        torch.testing.assert_close(batch.features["attention_mask"], alone["attention_mask"], rtol=0, atol=0)
    # More than are tokenised at once.
    asked.clear()
    monkeypatch.setattr("holdfast.encoding._LENGTHS_AT_ONCE", 39)
    again = list(tokenise(model, sentences, tokens_per_batch=100))
    assert asked == [39, 1, *(len(batch.rows) for batch in batches)]
    assert [batch.rows for batch in again] == [batch.rows for batch in batches]


def test_every_module_comes_back_in_its_own_mode(model: SentenceTransformer) -> None:
    model.train()
    frozen = model[0].auto_model.embeddings
    frozen.eval()
    spy = Spy(model)
    first = encode_sentences(model, ["the man runs"])
    assert not spy.in_training
    assert model.training
    assert model[0].auto_model.encoder.training
    assert not frozen.training
    np.testing.assert_array_equal(first, encode_sentences(model, ["the man runs"]))


def test_training_goes_on_after_an_evaluation(
    backbone: str, make_encoder_model: Callable[..., SentenceTransformer], sentences: list[str]
) -> None:
    model = make_encoder_model(backbone).train()
    for precision in ("fp32", "bf16"):
        # Whatever a backbone caches in inference mode (rotary tables, cast weights) must not end up in the next step.
        encode_sentences(model, sentences, precision=precision)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            model(model.preprocess(sentences))["sentence_embedding"].float().pow(3).sum().backward()
        assert all(value.grad is not None for name, value in model.named_parameters() if "encoder.layer.0" in name)


def test_the_mode_comes_back_after_an_error_too(model: SentenceTransformer) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    model.train()
    model[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="broken"):
        encode_sentences(model, ["the man runs"])
    assert model.training
    assert model[0].training


def test_bf16_is_close_to_fp32_but_is_not_it(model: SentenceTransformer, sentences: list[str]) -> None:
    exact, fast = encode_sentences(model, sentences), encode_sentences(model, sentences, precision="bf16")
    cosines = (exact * fast).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(fast, axis=1)
    assert fast.dtype == np.float32
    # This random model has weights 25 times the usual size; a trained one is at 0.9999 and above.
    assert cosines.min() > 0.995
    assert np.abs(exact - fast).max() > 1e-5


def test_fp32_stays_fp32_inside_a_mixed_precision_step(model: SentenceTransformer) -> None:
    outside = encode_sentences(model, ["the old man sleeps"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(encode_sentences(model, ["the old man sleeps"]), outside)


def test_fp32_stays_fp32_while_a_model_is_trained_in_bf16(
    model: SentenceTransformer, trained_in_bf16: Callable[[torch.nn.Module], None]
) -> None:
    before = encode_sentences(model, ["the old man sleeps"])
    half = encode_sentences(model, ["the old man sleeps"], precision="bf16")
    trained_in_bf16(model)
    wrapped = model.forward
    with torch.inference_mode():
        moved = model(model.preprocess(["the old man sleeps"]))["sentence_embedding"].numpy()
    assert np.abs(moved - before).max() > 1e-5, "the model is not in bf16: nothing was tested"
    np.testing.assert_array_equal(encode_sentences(model, ["the old man sleeps"]), before)
    np.testing.assert_array_equal(encode_sentences(model, ["the old man sleeps"], precision="bf16"), half)
    assert model.forward == wrapped, "its training goes on as it was"


def test_prompt_dense_and_truncated_dimension_apply(masked_lm: Path, sentences: list[str]) -> None:
    base = load_sentence_transformer(str(masked_lm), device="cpu")
    torch.manual_seed(1)
    model = SentenceTransformer(
        modules=[*base.children(), Dense(16, 12)],
        prompts={"query": "red cat "},
        default_prompt_name="query",
        device="cpu",
    )
    model.truncate_dim = 5
    vectors = encode_sentences(model, sentences)
    assert vectors.shape == (40, 5)
    np.testing.assert_allclose(vectors, model.encode(sentences), atol=1e-5)
    assert np.abs(vectors - model.encode(sentences, prompt="")).max() > 1e-3


def test_static_embeddings_which_have_no_attention_mask(sentences: list[str]) -> None:
    vocabulary = {"[UNK]": 0, "the": 1, "man": 2, "dog": 3, "runs": 4}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=6)], device="cpu")
    np.testing.assert_allclose(encode_sentences(model, sentences), model.encode(sentences), atol=1e-6)


def test_the_models_own_length_limit_holds(model: SentenceTransformer) -> None:
    model.max_seq_length = 6
    short, long = encode_sentences(model, ["the old man runs", "the old man runs on the bed in the park"])
    np.testing.assert_allclose(short, long, atol=1e-6)


def test_progress_counts_distinct_sentences(model: SentenceTransformer, sentences: list[str]) -> None:
    calls: list[tuple[int, int]] = []
    encode_sentences(model, sentences, tokens_per_batch=100, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (30, 30)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


def test_no_sentences_and_the_empty_sentence(model: SentenceTransformer) -> None:
    assert encode_sentences(model, []).shape == (0, 16)
    np.testing.assert_allclose(encode_sentences(model, [""]), model.encode([""]), atol=1e-6)


def test_a_kept_batch_can_be_encoded_twice(model: SentenceTransformer, sentences: list[str]) -> None:
    distinct = list(dict.fromkeys(sentences))
    batches = list(tokenise(model, distinct, tokens_per_batch=100))
    keys = [set(batch.features) for batch in batches]
    first = encode_batches(model, batches, len(distinct))
    np.testing.assert_array_equal(first, encode_batches(model, batches, len(distinct)))
    assert [set(batch.features) for batch in batches] == keys


def test_planned_batches() -> None:
    assert plan_batches([3, 9, 4, 2, 4], 8) == [[1], [2, 4], [0, 3]]
    assert plan_batches([], 8) == []
    assert plan_batches([0, 0, 0], 2) == [[0, 1], [2]]


def test_bad_options_are_one_line(model: SentenceTransformer) -> None:
    with pytest.raises(UserError, match=r"unknown precision 'bf61' \(did you mean 'bf16'\?\)"):
        encode_sentences(model, ["a"], precision="bf61")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least 1, not 0"):
        encode_sentences(model, ["a"], tokens_per_batch=0)


def test_vectors_are_normalised_and_those_without_a_direction_are_zero() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]], dtype=np.float32)
    given = vectors.copy()
    assert normalised(vectors).tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert np.array_equal(vectors, given, equal_nan=True)
