"""V-advCSE's `as_released` against ko120/Adversarial-SimCSE, and where the release departs from the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch
from torch import Tensor

from holdfast.adversary.divergence import divergence_between
from holdfast.objectives.v_advcse import VAdvCSE

STEPS = {"as released": 1e-3, "a step that turns r": 100.0}


class Watched(VAdvCSE):
    """V-advCSE that draws the recipe's noise and keeps what its attack gets and makes."""

    def initial_noise(self, x: Tensor, mask: Tensor) -> Tensor:
        assert self.adversary.init_std is not None
        self.start = recipe.centred("noise", *x.shape[::2])[:, None] * self.adversary.init_std
        return self.start

    def attack(self, encoder: Any, sentences: Any, x: Tensor, z: Tensor, statistics: Any) -> Tensor:
        self.z = z
        return super().attack(encoder, sentences, x, z, statistics)

    def _perturbed(self, encoder: Any, sentences: Any, x: Tensor, r: Tensor) -> Tensor:
        self.last = super()._perturbed(encoder, sentences, x, r)
        return self.last


def watched(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None], **options: Any) -> Watched:
    model = tiny_model()
    embedding_dropout(model, torch.cat(recipe.dropout_masks()))
    objective = Watched(model, **{**VAdvCSE.PRESETS["as_released"], "regularisation": 1.0, **options}).double()
    released_names = {"0": "wide", "1": "wide_norm", "3": "narrow"}
    for number, name in released_names.items():
        recipe.fill(objective.head.get_submodule(name), f"head.net.{number}.")
    return objective


def head_gradients(loss: Tensor, objective: Watched) -> dict[str, list[float]]:
    named = [*objective.model.transformers_model.named_parameters()]
    for number, name in {"0": "wide", "1": "wide_norm", "3": "narrow"}.items():
        module = objective.head.get_submodule(name)
        named += [(f"head.net.{number}.{part}", parameter) for part, parameter in module.named_parameters()]
    return recipe.summary(recipe.gradients(loss, named))


@pytest.mark.parametrize("case", STEPS)
def test_as_released(case: str, tiny_model: Any, embedding_dropout: Any, released: Any) -> None:
    expected = released[case]
    objective = watched(tiny_model, embedding_dropout, step_size=STEPS[case])
    terms = objective([recipe.batch()])
    assert terms["contrastive"].item() == pytest.approx(expected["contrastive"], rel=1e-9)
    assert terms["regulariser"].item() == pytest.approx(expected["regulariser"], rel=1e-7)
    assert recipe.probe("h + r", objective.last) == pytest.approx(expected["h + r"], rel=1e-8)
    for loss, name in (
        (terms["regulariser"], "gradients of the regulariser"),
        (terms["contrastive"] + terms["regulariser"], "gradients"),
    ):
        found = head_gradients(loss, objective)
        assert found.keys() == expected[name].keys()
        for group, values in expected[name].items():
            assert found[group] == pytest.approx(values, rel=1e-6), (name, group)


@pytest.mark.parametrize("case", STEPS)
def test_the_paper_has_another_divergence(case: str, tiny_model: Any, embedding_dropout: Any, released: Any) -> None:
    expected = released[case]
    objective = watched(tiny_model, embedding_dropout, step_size=STEPS[case])
    objective([recipe.batch()])
    paper = divergence_between(objective.z, objective.head(objective.last), "js").mean().item()
    assert paper == pytest.approx(expected["paper: divergence (eq. 13) of the same vectors"], rel=1e-7)
    assert paper < 0.95 * expected["regulariser"], "the release exchanges the arguments of the divergence"


def test_the_papers_step_finds_a_worse_perturbation_than_the_releases(
    tiny_model: Any, embedding_dropout: Any, released: Any
) -> None:
    objective = watched(tiny_model, embedding_dropout, as_released=False, step_size=None)
    ours = objective([recipe.batch()])["regulariser"].item()
    theirs = released["as released"]
    assert ours > 2 * theirs["paper: divergence (eq. 13) of the same vectors"]
    assert theirs["moved"] < 0.05, "its r, of length 1, hardly turns"
