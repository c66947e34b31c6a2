"""SimCSE against princeton-nlp/SimCSE on equal weights, texts and dropout masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch

from holdfast.encoder import Encoder
from holdfast.objectives.simcse import SimCSE


@pytest.fixture
def objective(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None]) -> SimCSE:
    model = tiny_model()
    embedding_dropout(model, torch.cat(recipe.dropout_masks()))
    made = SimCSE(model, **SimCSE.PRESETS["paper"]).double()
    recipe.fill(made.head, "head.")
    return made


def check(objective: SimCSE, columns: list[Any], expected: dict[str, Any], gradients_of: Callable[..., Any]) -> None:
    loss = objective(columns)["contrastive"]
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-10)
    found = gradients_of(loss, objective)
    assert found.keys() == expected["gradients"].keys()
    for group, values in expected["gradients"].items():
        assert found[group] == pytest.approx(values, rel=1e-8), group


def test_two_views_of_a_sentence(objective: SimCSE, released: Any, gradients_of: Any) -> None:
    check(objective, [recipe.batch()], released["two views of a sentence"], gradients_of)


def test_pairs(objective: SimCSE, released: Any, gradients_of: Any, embedding_dropout: Any) -> None:
    embedding_dropout(objective.model, *recipe.dropout_masks())  # one pass per column
    check(objective, [recipe.batch(), recipe.batch(recipe.POSITIVES)], released["pairs"], gradients_of)


def test_repeated_sentences_are_negatives_of_each_other_in_the_release(
    objective: SimCSE, released: Any, gradients_of: Any
) -> None:
    repeated = recipe.batch([*recipe.SENTENCES[:4], *recipe.SENTENCES[:2]])
    check(objective, [repeated], released["repeated sentences"], gradients_of)
    objective.duplicates = "mask"  # our default, which the release does not have
    assert objective([repeated])["contrastive"].item() < released["repeated sentences"]["loss"] - 0.1


def test_mean_pooling_without_head(
    tiny_model: Callable[..., Any], embedding_dropout: Any, released: Any, gradients_of: Any
) -> None:
    model = tiny_model(pooling="mean")
    embedding_dropout(model, torch.cat(recipe.dropout_masks()))
    check(SimCSE(model, head="none"), [recipe.batch()], released["mean pooling, no head"], gradients_of)


def test_sentence_vectors_are_those_before_the_head(objective: SimCSE, released: Any) -> None:
    model = objective.model.eval()
    with torch.no_grad():
        vectors = Encoder(model).encode(recipe.batch())
    assert recipe.probe("vectors", vectors) == pytest.approx(released["sentence vectors"]["probe"], rel=1e-10)
