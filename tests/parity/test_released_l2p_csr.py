"""L2P-CSR's `as_released` against RUCAIBox/L2P-CSR: masks after each ascent step, loss, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch

from holdfast.adversary.weakening import Weakening
from holdfast.objectives.l2p_csr import L2PCSR


@pytest.fixture
def make(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None]) -> Callable[..., L2PCSR]:
    def built(**options: Any) -> L2PCSR:
        model = tiny_model(layers=3)
        embedding_dropout(model, torch.cat(recipe.dropout_masks()))
        objective = L2PCSR(model, **{**L2PCSR.PRESETS["as_released"], **options}).double()
        recipe.fill(objective.head, "head.")
        tokens = torch.from_numpy(recipe.numbers("tokens", 3, 2, recipe.ROWS, recipe.LENGTH)) ** 2
        features = torch.from_numpy(recipe.numbers("features", 3, 1, recipe.WIDTH)) ** 2
        start = Weakening(tokens.flatten(1, 2), features)
        objective.initial_probabilities = lambda _: start  # type: ignore[method-assign]
        return objective

    return built


def fused(masks: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """The masks of all layers, (k, 2B, L, d)."""
    return torch.stack([token + feature for token, feature in masks])


def test_as_released(make: Callable[..., L2PCSR], released: Any, gradients_of: Any) -> None:
    objective = make()
    seen: list[torch.Tensor] = []
    losses: list[float] = []
    of_masks = objective._perturbed_loss

    def recorded(encoder: Any, sentences: Any, x: Any, perturbation: Any, equal: Any) -> torch.Tensor:
        seen.append(fused(perturbation["weakening"]))
        loss = of_masks(encoder, sentences, x, perturbation, equal)
        losses.append(loss.item())
        return loss

    objective._perturbed_loss = recorded  # type: ignore[method-assign]
    loss = objective([recipe.batch()])["contrastive"]
    assert [*losses, loss.item()] == pytest.approx(released["loss of each pass"], rel=1e-9)
    assert loss.item() == pytest.approx(released["loss"], rel=1e-9)
    assert [(1 - each).mean().item() for each in seen] == pytest.approx(released["share of weakened values"][:4])
    for each, expected in zip(seen, released["masks"], strict=False):
        assert recipe.probe("masks", each) == pytest.approx(expected, rel=1e-12)
    found = gradients_of(loss, objective)
    assert found.keys() == released["gradients"].keys()
    for group, values in released["gradients"].items():
        assert found[group] == pytest.approx(values, rel=1e-8), group


def test_the_paper_weakens_no_padding_and_does_not_attend_to_it(make: Callable[..., L2PCSR], released: Any) -> None:
    objective = make(as_released=False, steps=0)
    loss = objective([recipe.batch()])["contrastive"].item()
    assert loss == pytest.approx(released["paper: loss of the first masks"], rel=1e-9)
    assert loss != pytest.approx(released["loss of each pass"][0], rel=1e-2)
    assert released["padding that is weakened"] > 0.1


def test_the_attack_raises_the_loss_in_the_release_too(released: Any) -> None:
    losses = released["loss of each pass"]
    assert losses[-1] > losses[0]
