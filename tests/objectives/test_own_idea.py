"""The share of the gradient that a method's own idea contributes: known values, equal dropout, nothing changed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_checks import gradients
from torch import nn

from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Objective
from holdfast.objectives.own_idea import (
    attributes_replaced,
    encoder_gradient,
    idea_share,
    left_unchanged,
    relative_difference,
)
from small_options import ADCL_WITH_LM, COMBINED

WITH_AN_IDEA: dict[str, tuple[str, dict[str, Any]]] = {
    "consert": ("consert", {"encoder_dropout": True}),
    "consert, adversarial": ("consert", {"first_view": "adversarial"}),
    "ct": ("ct", {"negatives": 5}),
    "v-advcse": ("v-advcse", {}),
    "v-advcse, token": ("v-advcse", {"space": "token"}),
    "robustembed": ("robustembed", {"gamma": 0.5}),
    "uscal": ("robustembed", METHODS["robustembed"].PRESETS["uscal"]),
    "adcl": ("adcl", ADCL_WITH_LM),
    "adcl, swapped": ("adcl", {**ADCL_WITH_LM, "roles": "swapped"}),
    "adcse": ("adcse", {}),
    "l2p-csr": ("l2p-csr", {"layers": 2, "threshold": 0.4}),
    "l2p-csr, noise": ("l2p-csr", {"layers": 2, "noise": "embedding"}),
    "combined": ("combined", COMBINED),
    "anchored": ("anchored", {"adversarial": 0.5}),
    "rankcse": ("rankcse", {}),
    "rankcse, listnet": ("rankcse", {"distillation": "listnet"}),
    "simcse-plus": ("simcse-plus", {}),
    "diffcse": ("diffcse", {"generator": "LM"}),
    "anchored, both": ("anchored", {"forms": "both", "clean": 1.0, "tries": 2}),
}
WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {
    "consert, rates of 0": (
        "consert",
        {"first_view": "token-cutoff", "token_cutoff": 0.0, "feature_cutoff": 0.0, "second_view": "feature-cutoff"}
        | {"encoder_dropout": True},
    ),
    "ct, equal encoders": ("ct", {"negatives": 5}),
    "v-advcse, λ = 0": ("v-advcse", {"regularisation": 0.0}),
    "robustembed, x⁺ alone": ("robustembed", {"positives": "clean", "gamma": 0.0}),
    "adcl, no word replaced": ("adcl", {**ADCL_WITH_LM, "max_share": 0.01}),
    "adcl, swapped, no word replaced": ("adcl", {**ADCL_WITH_LM, "roles": "swapped", "max_share": 0.01}),
    "adcl, dropout": ("adcl", {**ADCL_WITH_LM, "positives": "dropout"}),
    "adcse, no negatives": ("adcse", {"negatives": 0}),
    "l2p-csr, φ = 0": ("l2p-csr", {"layers": 2, "threshold": 0.0}),
    "l2p-csr, no masks": ("l2p-csr", {"layers": 2, "token_mask": False, "feature_mask": False}),
    "l2p-csr, no noise": ("l2p-csr", {"layers": 2, "noise": "embedding", "radius": 1e-12}),
    "combined, no part": ("combined", {}),
    "rankcse, no rankings": ("rankcse", {"consistency": 0.0, "ranking": 0.0}),
    "diffcse, λ = 0": ("diffcse", {"weight": 0.0}),
    "simcse-plus, neither": ("simcse-plus", {"negatives_dropout": True, "dimension_weight": 0.0}),
    "combined, momentum keys": ("combined", {"keys": "momentum"}),
}


@pytest.fixture
def made(tmp_path: Path, make_masked_lm: Callable[..., Path], sentences: list[str]) -> Callable[..., Any]:
    """``made((method, options))``: an objective in fp64 in the midst of a training, with dropout, and a batch."""
    folder = make_masked_lm(tmp_path / "tiny")

    def make(case: tuple[str, dict[str, Any]]) -> tuple[Objective, list[dict[str, Any]]]:
        method, options = case
        torch.manual_seed(5)
        model = load_sentence_transformer(str(folder), device="cpu").double().train()
        options = {name: str(folder) if value == "LM" else value for name, value in options.items()}
        objective = METHODS[method](model, **options).double().train()
        objective.followed_by_trainer = True
        queue = getattr(objective, "queue", None)
        if queue is not None:
            queue.push(torch.randn(20, queue.keys.shape[1], dtype=torch.float64))
        return objective, [dict(model.preprocess(sentences))]

    return make


def drift(module: nn.Module) -> None:
    """Move the weights a little, as a training would."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))


@pytest.mark.parametrize("case", WITH_AN_IDEA)
def test_a_measurement_finds_a_share_and_changes_nothing(case: str, made: Callable[..., Any]) -> None:
    objective, batch = made(WITH_AN_IDEA[case])
    if case == "ct":
        drift(objective.second_encoder)
    objective.diagnostics["mine"] = torch.ones(())
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    plain = {name: value for name, value in vars(objective).items() if not isinstance(value, (dict, list))}
    lists = {name: list(value) for name, value in vars(objective).items() if isinstance(value, list)}
    state = torch.get_rng_state()
    share = idea_share(objective, batch)
    assert 1e-6 < share < 10
    assert torch.equal(torch.get_rng_state(), state)
    assert objective.diagnostics == {"mine": torch.ones(())}
    assert all(torch.equal(objective.state_dict()[name], value) for name, value in before.items())
    assert {name: value for name, value in vars(objective).items() if name in plain} == plain
    assert {name: value for name, value in vars(objective).items() if name in lists} == lists
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert getattr(getattr(objective, "negatives", None), "_gradient", None) is None
    assert idea_share(objective, batch) == share, "the same random numbers give the same share"


@pytest.mark.parametrize("case", WITHOUT)
def test_where_there_is_no_idea_the_share_is_0_with_dropout(case: str, made: Callable[..., Any]) -> None:
    """Which it would not be if the two passes had other dropout masks."""
    objective, batch = made(WITHOUT[case])
    share = idea_share(objective, batch)
    assert share < 1e-6
    gradient = encoder_gradient(objective, batch)
    again = encoder_gradient(objective, batch)  # of other dropout masks
    if case != "ct, equal encoders":  # without dropout
        assert relative_difference(gradient, again) > 1e-2


def test_masks_of_a_combination_that_weaken_nothing_have_no_share(made: Callable[..., Any]) -> None:
    objective, batch = made(("combined", {"weakening": True, "weakening_layers": 2}))
    objective.weakening = dataclasses.replace(objective.weakening, threshold=0.0)
    assert idea_share(objective, batch) < 1e-6


def test_without_negatives_in_the_batch_the_learned_ones_are_all(made: Callable[..., Any]) -> None:
    objective, batch = made(("adcse", {"in_batch_negatives": False}))
    assert idea_share(objective, batch) == 1.0


def test_the_share_is_the_norm_of_the_regularisers_gradient(made: Callable[..., Any]) -> None:
    objective, batch = made(("v-advcse", {"regularisation": 0.3}))
    torch.manual_seed(3)
    share = idea_share(objective, batch)
    torch.manual_seed(3)
    terms = objective(batch)
    parameters = [parameter for parameter in objective.model.parameters() if parameter.requires_grad]

    def norm(loss: torch.Tensor) -> torch.Tensor:
        found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
        return torch.cat([gradient.flatten() for gradient in found]).norm()

    expected = norm(terms["regulariser"]) / norm(terms["regulariser"] + terms["contrastive"])
    assert share == pytest.approx(expected.item(), rel=1e-6)


def test_twice_a_small_weight_has_twice_the_share(made: Callable[..., Any]) -> None:
    shares = []
    for weight in (1e-4, 2e-4):
        objective, batch = made(("v-advcse", {"regularisation": weight}))
        torch.manual_seed(3)
        shares.append(idea_share(objective, batch).item())
    assert shares[1] == pytest.approx(2 * shares[0], rel=1e-3)


@pytest.mark.parametrize("case", ["v-advcse", "robustembed", "adcl", "l2p-csr", "combined"])
def test_a_share_in_mini_batches_is_that_of_the_batch(case: str, made: Callable[..., Any]) -> None:
    found = []
    for size in (None, 3):
        objective, batch = made(WITH_AN_IDEA[case])
        for module in objective.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        objective.length_groups = 1
        if size is not None:
            objective.use_mini_batches(size)
        torch.manual_seed(4)
        found.append(idea_share(objective, batch).item())
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_share_of_shortened_vectors_counts_every_size(made: Callable[..., Any]) -> None:
    shares = []
    for dimensions in ({}, {4: 1.0}):
        objective, batch = made(("v-advcse", {"head": "none"}))
        if dimensions:
            objective.use_dimensions(dimensions)
        torch.manual_seed(4)
        shares.append(idea_share(objective, batch).item())
    assert min(shares) > 1e-6
    assert shares[0] != pytest.approx(shares[1], rel=1e-3)


def test_a_baseline_has_no_idea(made: Callable[..., Any]) -> None:
    objective, batch = made(("simcse", {}))
    assert not objective.has_idea
    with pytest.raises(NotImplementedError, match="SimCSE has nothing to switch off"):
        idea_share(objective, batch)


def test_a_distillation_has_no_idea(made: Callable[..., Any]) -> None:
    """Its share of 0 would be flagged as a training without effect."""
    assert not made(("anchored", {"noise": 0.0}))[0].has_idea
    assert made(("anchored", {}))[0].has_idea


def test_every_method_but_the_baseline_says_what_its_idea_is() -> None:
    for name, kind in METHODS.items():
        implemented = kind.without_idea is not Objective.without_idea
        assert implemented == (kind.OWN_IDEA is not None) == (name != "simcse"), name


def test_the_gradient_of_the_encoder_is_that_of_a_backward_pass(made: Callable[..., Any]) -> None:
    objective, batch = made(("robustembed", {}))
    torch.manual_seed(1)
    found = encoder_gradient(objective, batch)
    torch.manual_seed(1)
    expected = gradients(torch.stack(list(objective(batch).values())).sum(), objective)
    named = [(f"model.{name}", p) for name, p in objective.model.named_parameters() if p.requires_grad]
    for (name, _), gradient in zip(named, found, strict=True):
        torch.testing.assert_close(gradient, expected.get(name, torch.zeros_like(gradient)))


def test_attributes_are_restored_after_an_error() -> None:
    objective = nn.Linear(2, 2)
    objective.weighted = 1.0  # type: ignore[assignment]
    with contextlib.suppress(RuntimeError), attributes_replaced(objective, weighted=0.0, forward=lambda x: x):
        assert objective(torch.ones(3)).shape == (3,)
        assert objective.weighted == 0.0
        raise RuntimeError
    assert objective.weighted == 1.0
    assert "forward" not in vars(objective)


def test_an_attribute_that_does_not_exist_is_refused() -> None:
    """Else an option that was renamed would leave the idea on, without a word."""
    with pytest.raises(AttributeError), attributes_replaced(nn.Linear(2, 2), weighted=0.0):
        pass


def test_what_is_left_unchanged() -> None:
    module = nn.BatchNorm1d(2)
    module.drawn, module.pending, module.kept = torch.Generator(), [1], {}  # type: ignore[assignment]
    state, pending = module.drawn.get_state(), module.pending
    with contextlib.suppress(RuntimeError), left_unchanged(module):
        module(torch.randn(4, 2, generator=module.drawn))
        module.pending.append(2)
        module.kept["x"] = 1
        module.new = 1  # type: ignore[assignment]
        raise RuntimeError
    assert module.num_batches_tracked == 0
    assert torch.equal(module.running_mean, torch.zeros(2))
    assert torch.equal(module.drawn.get_state(), state)
    assert (module.pending, module.kept) == ([1], {})
    assert pending == [1, 2], "the list itself belongs to the block"
    assert not hasattr(module, "new")


def test_the_relative_difference_by_hand() -> None:
    gradient, other = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])], [torch.tensor([3.0, 1.0]), torch.tensor([2.0])]
    assert relative_difference(gradient, other) == pytest.approx(5**0.5 / 5)
    assert relative_difference([torch.zeros(2)], [torch.zeros(2)]) == 0.0
