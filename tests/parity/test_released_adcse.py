"""Three training steps of AdCSE's `as_released` against lirenhao1997/AdCSE, and the paper's loss beside its."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch

from holdfast.objectives.adcse import AdCSE

NEGATIVES, LEARNING_RATE = 8, 0.02


def objective_of(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None], **options: Any) -> AdCSE:
    model = tiny_model()
    first, second = recipe.dropout_masks()
    embedding_dropout(model, first)
    objective = AdCSE(model, **{**AdCSE.PRESETS["as_released"], "negatives": NEGATIVES, **options}).double()
    recipe.fill(objective.head, "head.")
    assert objective.follower is not None
    embedding_dropout(objective.follower.followed_model, second)
    recipe.fill(objective.follower.followed_model.transformers_model, "key encoder.")
    objective.negatives.vectors.copy_(recipe.centred("negatives", NEGATIVES, recipe.WIDTH))
    return objective


def test_three_steps(tiny_model: Any, embedding_dropout: Any, released: Any) -> None:
    objective = objective_of(tiny_model, embedding_dropout)
    assert objective.follower is not None
    named = [*objective.model.transformers_model.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in objective.head.named_parameters()]
    objective.followed_by_trainer = True
    for expected in released["steps"]:
        objective.follow()  # before the pass, as the release does, also before the first one
        objective.zero_grad()
        loss = objective([recipe.batch()])["contrastive"]
        loss.backward()
        gradients = {name: parameter.grad for name, parameter in named if parameter.grad is not None}
        assert loss.item() == pytest.approx(expected["loss"], rel=1e-10)
        key = objective.follower.followed_model.transformers_model.encoder.layer[0].output.dense.weight
        assert recipe.probe("key", key) == pytest.approx(expected["key encoder"], rel=1e-10)
        found = recipe.summary(gradients)
        assert found.keys() == expected["gradients"].keys()
        for group, values in expected["gradients"].items():
            assert found[group] == pytest.approx(values, rel=1e-8), group
        objective.negatives.ascend()  # which the release does in its forward pass, of the same loss
        assert recipe.probe("negatives", objective.negatives.vectors) == pytest.approx(expected["negatives"], rel=1e-10)
        assert recipe.probe("velocity", objective.negatives.velocity) == pytest.approx(expected["velocity"], rel=1e-8)
        with torch.no_grad():
            for name, parameter in named:
                if name in gradients:
                    parameter.sub_(gradients[name], alpha=LEARNING_RATE)


def test_the_papers_loss_has_no_negatives_from_the_batch(
    tiny_model: Any, embedding_dropout: Any, released: Any
) -> None:
    objective = objective_of(tiny_model, embedding_dropout, in_batch_negatives=False)
    objective.followed_by_trainer = True
    objective.follow()
    expected = released["steps"][0]
    assert objective([recipe.batch()])["contrastive"].item() == pytest.approx(
        expected["paper: loss (eq. 5)"], rel=1e-10
    )
    last = released["steps"][-1]
    assert last["paper: loss (eq. 5)"] < last["loss"] / 50, "three steps leave nothing to learn from these negatives"


def test_tokens_are_of_the_first_segment_without_the_releases_slip(
    tiny_model: Any, embedding_dropout: Any, released: Any
) -> None:
    objective = objective_of(tiny_model, embedding_dropout, mask_as_token_types=False)
    loss = objective([recipe.batch()])["contrastive"].item()
    assert loss != pytest.approx(released["steps"][0]["loss"], rel=1e-3)


def test_a_step_turns_the_releases_negatives_by_less_than_a_degree(released: Any) -> None:
    assert max(step["largest turn of a negative, degrees"] for step in released["steps"]) < 1.0
