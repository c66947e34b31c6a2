"""The steps of hotflip against princeton-nlp/corpus-poisoning on equal weights, queries and places."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import recipe
import torch

from holdfast.adversary.token_flips import TokenFlips, best_tokens, flip
from holdfast.attacks.poisoning.hotflip import placeable
from holdfast.encoder import Encoder


@pytest.fixture
def flips(tiny_model: Callable[..., Any], released: Any) -> TokenFlips:
    encoder = Encoder(tiny_model(pooling="mean").eval())
    with torch.no_grad():
        queries = encoder.encode(recipe.batch([recipe.SENTENCES[number] for number in released["queries"]]))
    return TokenFlips(encoder, queries.mean(dim=0), normalise=False)


def test_candidates_and_their_scores(flips: TokenFlips, released: Any) -> None:
    for step in released["steps"]:
        gradient = flips.gradient(step["ids"])
        assert recipe.probe("gradient", gradient) == pytest.approx(step["gradient"], rel=1e-8)
        tokens = best_tokens(gradient[step["place"]], flips.table, len(step["tokens"]))
        assert tokens == step["tokens"]
        assert flips.similarities([step["ids"]]).item() == pytest.approx(step["similarity"], rel=1e-12)
        made = flip(flips, step["ids"], step["place"], tokens, step["similarity"])
        assert made.scores == pytest.approx(step["scores"], rel=1e-10)


def test_chosen_tokens_and_the_similarity_of_each_step(flips: TokenFlips, released: Any) -> None:
    accepted = 0
    for step, after in pairwise(released["steps"]):
        made = flip(flips, step["ids"], step["place"], step["tokens"], step["similarity"])
        # The release also takes a token that beats the relevant passage for more queries, even if the mean falls.
        assert made.accepted or not step["more wins"]
        assert made.ids == after["ids"]
        assert made.similarity == pytest.approx(after["similarity"], rel=1e-10)
        accepted += made.accepted
    assert accepted >= 2


def test_special_tokens_are_placed_by_the_release_and_not_by_ours(
    flips: TokenFlips, released: Any, tiny_model: Callable[..., Any]
) -> None:
    special = set(range(len(recipe.MARKS)))
    mask = recipe.MARKS.index("[MASK]")
    assert special & {token for step in released["steps"] for token in step["ids"]} - {mask}
    allowed = placeable(tiny_model(pooling="mean").tokenizer, len(recipe.VOCABULARY))
    for step in released["steps"]:
        gradient = flips.gradient(step["ids"])[step["place"]]
        assert not special & set(best_tokens(gradient, flips.table, len(recipe.VOCABULARY), allowed))
