"""The momentum encoder against its equation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from holdfast.adversary.momentum import MomentumEncoder
from holdfast.encoder import Encoder
from holdfast.objectives.heads import Head


@pytest.fixture
def model(make_encoder_model: Any) -> Any:
    return make_encoder_model("bert")


def move(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def test_it_follows_every_weight_of_encoder_and_head(model: Any) -> None:
    head = Head(16)
    follower = MomentumEncoder(model, head, momentum=0.8)
    expected = [p.detach().clone() for part in (model, head) for p in part.parameters()]
    for step in range(3):
        move(model, step)
        move(head, 10 + step)
        follower.update(model, head)
        leaders = [p for part in (model, head) for p in part.parameters()]
        expected = [0.8 * own + 0.2 * leader for own, leader in zip(expected, leaders, strict=True)]
    found = list(follower.parameters())
    assert len(found) == len(expected)
    for own, value in zip(found, expected, strict=True):
        torch.testing.assert_close(own, value)


@pytest.mark.parametrize(("momentum", "seed"), [(1.0, 0), (0.0, 1)])
def test_with_momentum_one_it_stays_and_with_zero_it_is_the_leader(model: Any, momentum: float, seed: int) -> None:
    follower = MomentumEncoder(model, nn.Identity(), momentum=momentum)
    start = [p.detach().clone() for p in model.parameters()]
    move(model, seed)
    follower.update(model, nn.Identity())
    expected = start if momentum else list(model.parameters())
    for own, value in zip(follower.parameters(), expected, strict=True):
        torch.testing.assert_close(own, value)


def test_a_warmed_up_momentum_rises_to_m_and_survives_a_checkpoint(model: Any) -> None:
    follower = MomentumEncoder(model, nn.Identity(), momentum=0.3, warm_up=True)
    start = [p.detach().clone() for p in model.parameters()]
    expected, found = start, []
    for step in range(5):
        move(model, step)
        m = min(0.3, (1 + step) / (10 + step))
        found.append(float(follower.current_momentum))
        assert found[-1] == pytest.approx(m)
        follower.update(model, nn.Identity())
        expected = [m * own + (1 - m) * leader for own, leader in zip(expected, model.parameters(), strict=True)]
        other = MomentumEncoder(model, nn.Identity(), momentum=0.3, warm_up=True)
        other.load_state_dict(follower.state_dict())
        follower = other
    assert found[0] == pytest.approx(0.1)
    assert found[-1] == pytest.approx(0.3)
    for own, value in zip(follower.parameters(), expected, strict=True):
        torch.testing.assert_close(own, value)


def test_buffers_are_copied(model: Any) -> None:
    head = nn.BatchNorm1d(16)
    follower = MomentumEncoder(model, head, momentum=0.9)
    head(torch.randn(8, 16))
    follower.update(model, head)
    assert torch.equal(follower.followed_head.running_mean, head.running_mean)
    assert follower.followed_head.num_batches_tracked == 1


def test_keys_are_those_of_the_copies_and_have_no_gradient(model: Any, sentences: list[str]) -> None:
    head = Head(16)
    nn.init.normal_(head.dense.weight)
    follower = MomentumEncoder(model, head, momentum=0.9).eval()
    features = model.preprocess(sentences)
    with torch.no_grad():
        expected = head(Encoder(model).encode(features))
    move(model, 0)
    move(head, 1)
    keys = follower.keys(features)
    assert not keys.requires_grad
    torch.testing.assert_close(keys, expected)
    assert not any(p.requires_grad for p in follower.parameters())
    assert all(p.requires_grad for p in head.parameters()), "the leader is left alone"


def test_its_dropout_is_on_although_the_model_was_loaded_in_evaluation_mode(model: Any, sentences: list[str]) -> None:
    assert not model.training
    follower = MomentumEncoder(model, nn.Identity(), momentum=0.9)
    assert not model.training
    features = model.preprocess(sentences)
    assert (follower.keys(features) - follower.keys(features)).abs().max() > 1e-3
    follower.eval()
    assert torch.equal(follower.keys(features), follower.keys(features))


def test_no_child_is_called_model(model: Any) -> None:
    from sentence_transformers import SentenceTransformer

    follower = MomentumEncoder(model, nn.Identity(), momentum=0.9)
    named = [name for name, child in follower.named_modules() if isinstance(child, SentenceTransformer)]
    assert named == ["followed_model"]


def test_random_weights_are_new_and_drawn_as_the_backbone_draws_them(
    make_encoder_model: Any, backbone: str, sentences: list[str]
) -> None:
    model = make_encoder_model(backbone)
    follower = MomentumEncoder(model, nn.Identity(), momentum=0.9)
    torch.manual_seed(4)
    follower.randomise()
    theirs = Encoder(model).backbone.model
    mine = Encoder(follower.followed_model).backbone.model
    torch.manual_seed(4)
    expected = type(theirs)(theirs.config)
    for (name, own), leader, value in zip(
        mine.named_parameters(), theirs.parameters(), expected.parameters(), strict=True
    ):
        assert torch.equal(own, value), name
        assert not own.requires_grad
        if own.ndim == 2 and own.std() > 0:
            assert (own - leader).abs().max() > 1e-3, name
    assert torch.isfinite(follower.keys(model.preprocess(sentences))).all()


@pytest.mark.parametrize("momentum", [-0.1, 1.1])
def test_momentum_lies_between_zero_and_one(model: Any, momentum: float) -> None:
    with pytest.raises(ValueError, match="momentum must lie"):
        MomentumEncoder(model, nn.Identity(), momentum=momentum)
