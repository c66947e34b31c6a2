"""The parts together: each alone is its paper's method, exactly; all of them at once still train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from holdfast.adversary.weakening import Weakening
from holdfast.errors import UserError
from holdfast.objectives import L2PCSR, AdCSE, Combined, Objective, RobustEmbed, SimCSE, VAdvCSE

ALL: dict[str, Any] = {
    "keys": "momentum",
    "negatives": "batch+queue+adversaries",
    "queue_size": 20,
    "adversaries": 5,
    "adversarial_positive": True,
    "weakening": True,
    "regularisation": 0.5,
}
FOLLOWING = {"keys": "momentum", "negatives": "batch+adversaries", "adversaries": 5}


def same_draws(objective: Any) -> None:
    """Replace what an objective draws by numbers that any other objective is given too."""
    generator = torch.Generator().manual_seed(5)
    normal = torch.randn(8, 64, 16, generator=generator, dtype=torch.float64)
    uniform = torch.rand(3, 16, 64, generator=generator, dtype=torch.float64)
    if isinstance(objective, (RobustEmbed, Combined)):
        objective.initial_noise = lambda x: normal[: len(x), : x.shape[1]] * 1e-3  # type: ignore[method-assign]
    if isinstance(objective, VAdvCSE):
        objective.initial_noise = lambda x, mask: normal[: len(x), :1] * 0.1  # type: ignore[method-assign]
    if isinstance(objective, Combined):
        objective.initial_perturbation = lambda h, mask: normal[: len(h), :1] * 0.1  # type: ignore[method-assign]
    if isinstance(objective, (L2PCSR, Combined)):
        objective.initial_probabilities = (
            lambda x: Weakening(  # type: ignore[method-assign]
                uniform[:, : len(x), : x.shape[1]].clone(), uniform[:, : len(x), -x.shape[2] :].clone()
            )
        )


def made(kind: type[Objective], model: Any, options: dict[str, Any]) -> Objective:
    torch.manual_seed(3)
    objective = kind(model, **options).double()
    same_draws(objective)
    return objective


def measured(objective: Objective, batch: dict[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss, and the gradient of each parameter, after a step of what follows the optimiser."""
    sum(objective([batch]).values()).backward()
    objective.zero_grad()
    loss = sum(objective([batch]).values(), torch.zeros((), dtype=torch.float64))
    loss.backward()
    grads = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    objective.zero_grad()
    return loss.detach(), grads


@pytest.mark.parametrize(
    ("options", "paper", "its_options"),
    [
        ({}, SimCSE, {}),
        ({"head": "bn"}, SimCSE, {"head": "bn"}),
        ({"adversarial_positive": True, "ascent_steps": 3, "gamma": 0.2}, RobustEmbed, "three steps"),
        ({"weakening": True}, L2PCSR, {}),
        ({"regularisation": 0.4, "head": "bn"}, VAdvCSE, {"regularisation": 0.4}),
        (FOLLOWING, AdCSE, {"negatives": 5}),
        ({**FOLLOWING, "negatives": "adversaries"}, AdCSE, {"negatives": 5, "in_batch_negatives": False}),
    ],
    ids=["simcse", "simcse-bn", "robustembed", "l2p-csr", "v-advcse", "adcse", "adcse-paper"],
)
def test_one_part_is_the_papers_method(
    exact_model: Any, batch: dict[str, Any], options: dict[str, Any], paper: type[Objective], its_options: Any
) -> None:
    if its_options == "three steps":
        its_options = {"pgd_steps": 3, "fgsm_steps": 3, "gamma": 0.2}
    ours, theirs = made(Combined, exact_model, options), made(paper, exact_model, its_options)
    loss, grads = measured(ours, batch)
    expected, expected_grads = measured(theirs, batch)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    assert grads.keys() == expected_grads.keys()
    for name, gradient in grads.items():
        torch.testing.assert_close(gradient, expected_grads[name], rtol=1e-9, atol=1e-11)
    assert max(gradient.abs().max() for gradient in grads.values()) > 1e-3


def test_the_momentum_warms_up_unless_asked_otherwise(exact_model: Any) -> None:
    for options, warm_up in ({}, True), ({"momentum_warm_up": False}, False):
        objective = Combined(exact_model, keys="momentum", **options)
        assert objective.follower is not None
        assert objective.follower.warm_up is warm_up


def test_every_part_counts(exact_model: Any, batch: dict[str, Any]) -> None:
    whole = measured(made(Combined, exact_model, ALL), batch)[0]
    less: dict[str, Any]
    for less in (
        {"negatives": "batch+queue"},
        {"negatives": "batch+adversaries"},
        {"negatives": "queue+adversaries"},
        {"adversarial_positive": False},
        {"weakening": False},
        {"regularisation": 0.0},
    ):
        assert (measured(made(Combined, exact_model, {**ALL, **less}), batch)[0] - whole).abs() > 1e-6, less


def test_the_queue_holds_the_keys_of_earlier_steps(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = made(
        Combined, exact_model, {"keys": "momentum", "negatives": "queue", "queue_size": 12, "duplicates": "keep"}
    )
    assert isinstance(objective, Combined)
    assert objective.queue is not None
    assert objective.follower is not None
    first = objective([batch])["contrastive"]
    assert first == 0, "nothing is in the queue and the batch does not count"
    keys = objective.follower.keys(batch)
    objective.follow()
    assert torch.equal(objective.queue.vectors()[:8], keys)
    z = objective.head(objective.encoder.encode(batch))
    unit, k = torch.nn.functional.normalize(z, dim=1), torch.nn.functional.normalize(keys, dim=1)
    own = torch.nn.functional.normalize(objective.follower.keys(batch), dim=1)
    above = ((unit * own).sum(1) / 0.05).exp()
    expected = -(above / (above + (unit @ k.T / 0.05).exp().sum(1))).log().mean()
    objective.followed_by_trainer = True
    torch.testing.assert_close(objective([batch])["contrastive"], expected, rtol=1e-10, atol=1e-12)


def test_attacks_leave_no_gradient_behind(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = made(Combined, exact_model, ALL)
    modes = [module.training for module in exact_model.modules()]
    terms = objective([batch])
    assert set(terms) == {"contrastive", "adversarial", "regulariser"}
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert modes == [module.training for module in exact_model.modules()]
    assert objective.diagnostics["attack_loss_rise"] > 0


def test_all_parts_train_on_every_backbone(
    backbone: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model(backbone).train()
    objective = Combined(model, **ALL)
    optimiser = torch.optim.AdamW([p for p in objective.parameters() if p.requires_grad], lr=1e-3)
    features = dict(model.preprocess(sentences))
    for _ in range(3):
        loss = sum(objective([features]).values(), torch.zeros(()))
        assert torch.isfinite(loss)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"negatives": "queue"}, 'needs keys="momentum"'),
        ({"negatives": "batch+queues"}, "got 'queues'"),
        ({"weakening": True, "head": "bn"}, "batch statistics"),
        ({"regularisation": -1.0}, "regularisation"),
    ],
)
def test_what_does_not_go_together_is_told(exact_model: Any, options: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Combined(exact_model, **options)


@pytest.mark.parametrize("layers", [0, 9])
def test_more_weakening_than_layers_is_told(exact_model: Any, layers: int) -> None:
    with pytest.raises(UserError, match=f"weakening_layers={layers} does not fit a model of 3 layers: it takes 1 to 3"):
        Combined(exact_model, weakening=True, weakening_layers=layers)
    Combined(exact_model, weakening_layers=layers)  # which no part reads


@pytest.mark.parametrize("head", ["tanh", "bn"])
def test_an_evaluation_in_training_mode_moves_nothing(exact_model: Any, batch: dict[str, Any], head: str) -> None:
    """A stock trainer sets the model's mode and not the loss's; what tells its evaluation is that no gradient is."""
    objective = made(Combined, exact_model, {**ALL, "head": head, "weakening": False})
    assert isinstance(objective, Combined)
    sum(objective([batch]).values(), torch.zeros(())).backward()
    state = {name: value.clone() for name, value in objective.own_state().items()}
    pending = len(objective._pending)
    with torch.no_grad():
        objective([batch])
    torch.testing.assert_close(objective.own_state(), state, rtol=0, atol=0)
    assert len(objective._pending) == pending == 1
    objective([batch])
    assert objective.queue is not None
    assert objective.queue.filled == 8, "the next training pass takes in the keys of the last"


def test_its_draws_are_those_of_the_methods(exact_model: Any) -> None:
    objective = Combined(exact_model, adversarial_positive=True, ascent_steps=3, weakening=True, regularisation=0.5)
    torch.manual_seed(0)
    x, h = torch.zeros(300, 8, 16), torch.zeros(300, 1, 16)
    assert objective.initial_noise(x).std().item() == pytest.approx(3e-4, rel=0.02)
    lengths = objective.initial_perturbation(h, torch.ones(300, 1)).norm(dim=-1)
    assert lengths.mean().item() == pytest.approx(0.1, rel=0.05), "at r = 0 the divergence has no slope"
    start = objective.initial_probabilities(x)
    for part, shape in zip(start, ((3, 300, 8), (3, 300, 16)), strict=True):
        assert part is not None
        assert part.shape == shape
        assert 0.0 <= part.min() < 0.01 < 0.99 < part.max() < 1.0
        assert part.mean().item() == pytest.approx(0.5, abs=0.02)


def test_the_regulariser_is_more_than_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    terms = Combined(exact_model, regularisation=1.0).double()([batch])
    assert terms["regulariser"].item() > 1e-6
