"""Exchanges of tokens by the gradient of the mean similarity: values, invariants, and what is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from holdfast.adversary.token_flips import TokenFlips, best_tokens, flip
from holdfast.encoder import Encoder


@pytest.fixture
def model(make_encoder_model: Callable[..., Any]) -> Any:
    return make_encoder_model("bert", pooling="mean").double()


@pytest.fixture
def centre(model: Any, sentences: list[str]) -> torch.Tensor:
    with torch.no_grad():
        return F.normalize(Encoder(model).encode(Encoder(model).tokenise(sentences)), dim=1).mean(dim=0)


def ids_of(model: Any, text: str) -> list[int]:
    found: list[int] = model.tokenizer(text)["input_ids"]
    return found


@pytest.mark.parametrize("normalise", [True, False])
def test_similarities_are_means_over_the_queries(
    model: Any, centre: torch.Tensor, sentences: list[str], normalise: bool
) -> None:
    flips = TokenFlips(Encoder(model), centre, normalise=normalise)
    found = flips.similarities([ids_of(model, text) for text in sentences])
    vectors = torch.tensor(model.encode(sentences), dtype=torch.float64)
    queries = F.normalize(vectors, dim=1)
    passages = queries if normalise else vectors
    expected = torch.stack([(passages[i] @ queries.T).mean() for i in range(len(sentences))])
    assert torch.allclose(found, expected, atol=1e-10)


def test_the_gradient_is_that_of_the_word_embedding(model: Any, centre: torch.Tensor, sentences: list[str]) -> None:
    flips = TokenFlips(Encoder(model), centre, normalise=True)
    ids, place, step = ids_of(model, sentences[0]), 3, 1e-5
    gradient = flips.gradient(ids)
    embedding = model.transformers_model.get_input_embeddings()
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(gradient.shape[1], dtype=torch.float64, generator=generator)

    def moved(by: float) -> float:
        def add(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor:
            output = output.clone()
            output[0, place] += by * direction
            return output

        handle = embedding.register_forward_hook(add)
        try:
            return float(flips.similarities([ids]))
        finally:
            handle.remove()

    slope = (moved(step) - moved(-step)) / (2 * step)
    assert float(gradient[place] @ direction) == pytest.approx(slope, rel=1e-6)


def test_model_and_random_numbers_are_left_as_they_were(model: Any, centre: torch.Tensor, sentences: list[str]) -> None:
    model.train()
    flags = [parameter.requires_grad for parameter in model.parameters()]
    before = torch.get_rng_state()
    flips = TokenFlips(Encoder(model), centre, normalise=True)
    ids = ids_of(model, sentences[0])
    first = flips.gradient(ids), flips.similarities([ids])
    second = flips.gradient(ids), flips.similarities([ids])
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert all(module.training for module in model.modules())
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.transformers_model.get_input_embeddings()._forward_hooks


def test_the_best_tokens_are_those_with_the_largest_first_order_gain() -> None:
    table = torch.tensor([[1.0, 0.0], [3.0, 1.0], [2.0, 0.0], [-1.0, 5.0]])
    gradient = torch.tensor([1.0, 0.0])
    assert best_tokens(gradient, table, 3) == [1, 2, 0]
    assert best_tokens(gradient, table, 9, torch.tensor([True, False, True, True])) == [2, 0, 3]


def test_a_flip_takes_the_best_candidate_or_none(model: Any, centre: torch.Tensor, sentences: list[str]) -> None:
    flips = TokenFlips(Encoder(model), centre, normalise=True)
    ids, place = ids_of(model, sentences[1]), 2
    now = float(flips.similarities([ids]))
    tokens = list(range(5, 20))
    made = flip(flips, ids, place, tokens, now)
    assert made.accepted
    assert made.similarity == max(made.scores) > now
    assert made.ids == [*ids[:place], tokens[made.scores.index(max(made.scores))], *ids[place + 1 :]]
    kept = flip(flips, ids, place, tokens, now, noise=made.similarity - now)
    assert not kept.accepted
    assert kept.ids == ids
    assert kept.similarity == now
    assert not flip(flips, ids, place, [], now).accepted
