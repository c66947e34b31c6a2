"""RobustEmbed's parts against jasl1/RobustEmbed, the paper's own repository; `as_released` is its successor's.

In this release the adversarial view stands for the sentences too, in half of a loss that is the mean of two. The rows
that it attacks are *both views of the first half of the batch*, and it compares them with all sentences by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch

from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.robustembed import RobustEmbed


@pytest.fixture
def objective(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None]) -> RobustEmbed:
    model = tiny_model()
    first, second, third = recipe.dropout_masks(3)
    embedding_dropout(model, torch.cat([first, second]), third)
    made = RobustEmbed(model, **RobustEmbed.PRESETS["paper"], radius=1e-6, positives="clean").double()
    recipe.fill(made.head, "head.")
    return made


def test_the_half_of_clean_positives(objective: RobustEmbed, released: Any) -> None:
    ours = objective([recipe.batch()])["robust"].item()
    assert ours == pytest.approx(released["its half of clean positives"], rel=1e-10)


def test_the_half_of_adversarial_positives_compares_other_sentences(objective: RobustEmbed, released: Any) -> None:
    encoder, batch = objective.encoder, recipe.batch()
    views = encoder.embed(batch, views=2).chunk(2)
    attacked = recipe.interleaved(*views)[: recipe.ROWS]  # without its perturbation, of at most 1e-6
    mask = batch["attention_mask"].repeat_interleave(2, dim=0)[: recipe.ROWS]
    adversarial = objective.head(encoder.encode({"inputs_embeds": attacked, "attention_mask": mask}))
    z = objective.head(_clean(objective))
    term = info_nce(z, [adversarial], temperature=objective.temperature).item()
    assert term == pytest.approx(released["its half of adversarial positives"], rel=1e-4)
    both = released["its half of clean positives"] + released["its half of adversarial positives"]
    assert released["robust"] == pytest.approx(both / 2, rel=1e-10)


def test_the_paper_compares_each_sentence_with_its_own_perturbation(
    tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None], released: Any
) -> None:
    model = tiny_model()
    first, second, third = recipe.dropout_masks(3)
    embedding_dropout(model, torch.cat([first, second]), third)
    objective = RobustEmbed(model, **RobustEmbed.PRESETS["paper"], radius=1e-6, positives="adversarial").double()
    recipe.fill(objective.head, "head.")
    paper = objective([recipe.batch()])["robust"].item()
    # Of a perturbation of at most 1e-6 nothing is to be seen in either.
    expected = released["paper: half of adversarial positives, the perturbation at 0"]
    assert paper == pytest.approx(expected, rel=1e-4)
    assert paper < released["its half of adversarial positives"] - 0.5


def test_the_perturbation_is_clamped_far_below_its_steps(released: Any) -> None:
    assert released["updates"] == 5
    assert released["largest coordinate of the perturbation"] == pytest.approx(1e-6, rel=1e-3)
    assert released["share of coordinates along the gradient"] < 0.6, "it does not follow the gradient"


def _clean(objective: RobustEmbed) -> torch.Tensor:
    """The sentence vectors of the first view, with the dropout of the training pass."""
    first, second, _ = recipe.dropout_masks(3)
    objective.model.transformers_model.embeddings.dropout = recipe.FixedDropout(torch.cat([first, second])).train()
    return objective.encoder.encode(recipe.batch(), views=2)[: recipe.ROWS]
