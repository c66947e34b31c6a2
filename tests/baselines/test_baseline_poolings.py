"""Every pooling, saved and loaded by plain sentence-transformers, is what transformers computes directly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor

from holdfast.baselines.pooling import load_pooled, with_pooling
from holdfast.baselines.registry import POOLED
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer


def directly(model: SentenceTransformer, pooling: str, sentences: list[str]) -> Tensor:
    """One sentence at a time, without padding, from the transformer alone."""
    transformer: Any = model[0]
    rows = []
    for sentence in sentences:
        tokens = transformer.tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            output = transformer.model(**tokens, output_hidden_states=True)
        states, last = output.hidden_states, output.last_hidden_state[0]
        first = {"first-last": states[0], "first-last-layer1": states[1], "last-two": states[-2]}.get(pooling)
        rows.append(last[0] if pooling == "cls" else last.mean(0) if first is None else ((first[0] + last) / 2).mean(0))
    return torch.stack(rows)


@pytest.mark.parametrize("pooling", POOLED)
def test_a_saved_pooling_is_the_direct_computation(
    backbone: str, pooling: str, make_encoder_model: Callable[..., Any], sentences: list[str], tmp_path: Path
) -> None:
    # Made from a model with another pooling, which is left behind.
    made = with_pooling(make_encoder_model(backbone, pooling="max"), pooling)
    made.save_pretrained(str(tmp_path), create_model_card=False)
    # In double precision: these random weights blow fp32's rounding up to some 1e-6.
    loaded = SentenceTransformer(str(tmp_path), device="cpu").double()
    expected = directly(loaded, pooling, sentences)
    # All in one batch, so that the short ones are padded.
    padded = loaded.encode(sentences, batch_size=len(sentences), convert_to_tensor=True)
    torch.testing.assert_close(padded, expected, atol=1e-6, rtol=0)
    assert loaded.get_embedding_dimension() == 16


def test_the_poolings_differ(make_encoder_model: Callable[..., Any], sentences: list[str]) -> None:
    model = make_encoder_model(layers=3)
    vectors = [directly(model, pooling, sentences) for pooling in POOLED]
    for i, one in enumerate(vectors):
        for other in vectors[i + 1 :]:
            assert (one - other).abs().max() > 0.1


def test_going_back_to_the_mean_turns_the_hidden_states_off(make_encoder_model: Callable[..., Any]) -> None:
    model = with_pooling(make_encoder_model(), "first-last")
    assert model[0].model.config.output_hidden_states
    back = with_pooling(model, "mean")
    assert not back[0].model.config.output_hidden_states
    assert len(list(back.children())) == 2


def test_prompts_are_kept(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model()
    model.prompts, model.default_prompt_name = {"query": "the dog "}, "query"
    made = with_pooling(model, "mean")
    assert (made.prompts["query"], made.default_prompt_name) == ("the dog ", "query")


def test_a_masked_lm_gets_first_last_and_a_sentence_transformer_keeps_its_own(
    masked_lm: Path, make_encoder_model: Callable[..., Any], tmp_path: Path, sentences: list[str]
) -> None:
    assert load_pooled(str(masked_lm), None)[1] == "first-last"
    own = make_encoder_model(pooling="max")
    own.append(Dense(16, 4))
    own.save_pretrained(str(tmp_path / "st"), create_model_card=False)
    model, called = load_pooled(str(tmp_path / "st"), None)
    assert called == "its own"
    assert model.encode(sentences).shape == (8, 4)
    model, called = load_pooled(str(tmp_path / "st"), "mean")
    assert called == "mean"
    torch.testing.assert_close(
        torch.from_numpy(model.to("cpu").encode(sentences)), directly(model, "mean", sentences), atol=1e-5, rtol=0
    )


def test_what_cannot_be_pooled_is_refused(masked_lm: Path, make_encoder_model: Callable[..., Any]) -> None:
    from holdfast.baselines.word_vectors import word_vector_model
    from holdfast.edits.word_vectors import WordVectors

    words = word_vector_model(WordVectors(["a"], torch.ones(1, 3).numpy(), 0, 0))
    with pytest.raises(UserError, match="not built around a transformer"):
        with_pooling(words, "mean")
    with pytest.raises(UserError, match="is a prompt model"):
        with_pooling(load_sentence_transformer(str(masked_lm), pooling="prompt"), "mean")
    with pytest.raises(UserError, match="'first-last'"):
        with_pooling(make_encoder_model(), "firstlast")
    with pytest.raises(UserError, match="has 1 layer"):
        with_pooling(make_encoder_model(layers=1), "first-last-layer1")
