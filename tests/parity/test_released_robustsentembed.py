"""RobustEmbed's `as_released` against jasl1/RobustSentEmbed: its terms, its pairs, and what is not reproduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch
from torch import Tensor

from holdfast.adversary.ascent import perturbation_gradient
from holdfast.objectives import robustembed
from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.robustembed import RobustEmbed

CASE = "head of a linear map and tanh"


class Watched(RobustEmbed):
    """RobustEmbed that draws the recipe's noise and keeps its perturbation and its embeddings."""

    def initial_noise(self, x: Tensor) -> Tensor:
        return recipe.centred("noise", *x.shape) * self.init_std

    def attack(
        self, encoder: Any, sentences: Any, x: Tensor, z_positive: Tensor, equal: Tensor | None = None
    ) -> Tensor:
        self.keys = z_positive
        return super().attack(encoder, sentences, x, z_positive, equal)

    def _encode_perturbed(self, encoder: Any, sentences: Any, x: Tensor, delta: Tensor) -> Tensor:
        self.x, self.delta = x, delta.detach()
        return super()._encode_perturbed(encoder, sentences, x, delta)


@pytest.fixture
def objective(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None]) -> Watched:
    model = tiny_model()
    first, second, third = recipe.dropout_masks(3)
    embedding_dropout(model, torch.cat([first, second]), third)
    made = Watched(model, **RobustEmbed.PRESETS["as_released"]).double()
    recipe.fill(made.head, "head.")
    return made


def close(found: dict[str, list[float]], expected: dict[str, list[float]], rel: float) -> None:
    assert found.keys() == expected.keys()
    for group, values in expected.items():
        assert found[group] == pytest.approx(values, rel=rel), group


def test_the_clean_term_and_the_size_of_the_perturbation(objective: Watched, released: Any, gradients_of: Any) -> None:
    expected = released[CASE]
    terms = objective([recipe.batch()])
    assert terms["robust"].item() == pytest.approx(expected["robust"], rel=1e-10)
    close(gradients_of(terms["robust"], objective), expected["gradients of the robust term"], 1e-8)
    largest = objective.delta.abs().max().item()
    assert largest == pytest.approx(expected["largest coordinate of the perturbation"], rel=1e-6)
    assert objective.ascent.pgd_steps == expected["updates"]


def test_the_adversarial_term_on_keys_that_pass_the_embeddings_twice(
    objective: Watched, embedding_dropout: Any, released: Any, gradients_of: Any
) -> None:
    """The pairs, the borrowed masks and the second pass of the embeddings are the release's; our keys are not."""
    expected = released[CASE]
    ours = objective([recipe.batch()])["adversarial"].item()
    first, second, third = recipe.dropout_masks(3)
    batch = recipe.batch()
    encoder = objective.encoder
    embedding_dropout(objective.model, torch.cat([first, second]), third, second)
    x, target = encoder.embed(batch, views=2).chunk(2)
    z = objective.head(robustembed._encode_twice_embedded(encoder, batch, x + objective.delta))
    borrowed = torch.arange(recipe.ROWS) // 2  # the targets are the first half of the rows, with interleaved masks
    features = {"inputs_embeds": target, "attention_mask": batch["attention_mask"][borrowed]}
    queries, keys = robustembed._released_pairs(objective.head(encoder.encode(features)), z)
    term = objective.gamma * info_nce(queries, [keys], temperature=objective.temperature)
    # The perturbations of at most 1e-6 differ, see below.
    assert term.item() == pytest.approx(expected["adversarial"], rel=1e-4)
    close(gradients_of(term, objective), expected["gradients of the adversarial term"], 2e-2)
    assert ours != pytest.approx(expected["adversarial"], rel=1e-2)


def test_the_releases_perturbation_does_not_follow_the_gradient(objective: Watched, released: Any) -> None:
    objective([recipe.batch()])

    def loss(delta: Tensor) -> Tensor:
        z = objective.head(objective._encode_perturbed(objective.encoder, recipe.batch(), objective.x, delta))
        return objective._adversarial_term(z, objective.keys, None)

    last = objective.delta
    with objective.encoder.attack_mode():
        slope, _ = perturbation_gradient(loss, last)
    real = recipe.batch()["attention_mask"].bool()
    ours = (last.sign() == slope.sign())[real].double().mean().item()
    assert ours > 0.75, "all but those whose sign has changed since the start"
    # The release normalises the embedding in place of the gradient: that moves each coordinate far out of its clamp.
    assert released[CASE]["share of coordinates along the gradient"] < 0.5


def test_the_paper_pairs_each_sentence_with_itself(
    tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None], released: Any
) -> None:
    model = tiny_model()
    first, second, third = recipe.dropout_masks(3)
    embedding_dropout(model, torch.cat([first, second]), third)
    objective = RobustEmbed(model, **RobustEmbed.PRESETS["paper"], radius=1e-6).double()
    recipe.fill(objective.head, "head.")
    paper = objective([recipe.batch()])["adversarial"].item()
    # x + δ with δ of at most 1e-6 is x, whose loss against x⁺ is the clean term.
    assert paper == pytest.approx(released[CASE]["paper: adversarial term, the perturbation at 0"], rel=1e-4)
    assert paper < released[CASE]["adversarial"] - 0.003


def test_the_releases_attack_leaves_gradients_behind(released: Any) -> None:
    left, wanted = (
        released[CASE][name] for name in ("gradients that the attack leaves behind", "gradients of the robust term")
    )
    assert all(left[group][0] > 0.5 * wanted[group][0] for group in wanted), "holdfast's attacks leave none"
