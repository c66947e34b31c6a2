"""V-advCSE against a slow rendering of its Algorithm 1, its invariants, and what its release does instead."""

from __future__ import annotations

import copy
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from gradient_checks import another_order, gradients, reordered, wider
from torch import nn

from holdfast.adversary.balls import per_coordinate, project, sentence_norm
from holdfast.encoder import Encoder
from holdfast.objectives import SimCSE, regulariser_weight
from holdfast.objectives.regulariser_weight import RegulariserWeight, gradient_norms, share_of
from holdfast.objectives.v_advcse import VAdvCSE
from holdfast.training.method_options import describe
from warm import WarmPython

SETTINGS: dict[str, Any] = {"regularisation": 0.7, "temperature": 0.1, "radius": 0.8, "step_size": 0.5}


def fixed_noise(objective: VAdvCSE, monkeypatch: pytest.MonkeyPatch, scale: float = 0.02) -> torch.Tensor:
    """Replace r⁰ by the same noise in every call."""
    noise = torch.randn(8, 64, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * scale
    monkeypatch.setattr(objective, "initial_noise", lambda x, mask: noise[: x.shape[0], : x.shape[1]].to(x.dtype))
    return noise


def randomised(objective: VAdvCSE) -> VAdvCSE:
    """The objective in fp64 with a head whose every parameter is random and large."""
    generator = torch.Generator().manual_seed(11)
    for parameter in objective.double().head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return objective


def keep_attacks(objective: VAdvCSE, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    attack = objective.attack
    monkeypatch.setattr(objective, "attack", lambda *args: found.append(attack(*args)) or found[-1])
    return found


Row = torch.Tensor
Pair = tuple[Row, Row]


class Slow:
    """Algorithm 1 a sentence at a time, around BERT's own embedding and encoder modules."""

    def __init__(self, objective: VAdvCSE, batch: dict[str, Any], noise: torch.Tensor) -> None:
        self.o, self.noise = objective, noise
        self.bert = objective.model.transformers_model
        self.ids = [row[mask.bool()] for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]

    def hidden(self, x: Row) -> Row:
        return self.bert.encoder(x[None]).last_hidden_state[0, 0]

    def moments(self, rows: list[Row]) -> Pair:
        mean = sum(rows) / len(rows)
        return mean, sum((row - mean) ** 2 for row in rows) / len(rows)

    def wide(self, h: Row, moments: Pair) -> Row:
        head, (mean, variance) = self.o.head, moments
        normal = (head.wide.weight @ h - mean) / torch.sqrt(variance + 1e-5)
        return head.narrow.weight @ (normal * head.wide_norm.weight + head.wide_norm.bias).clamp(min=0)

    def statistics(self, vectors: list[Row]) -> list[Pair]:
        if self.o.head.dense is not None:
            return []
        first = self.moments([self.o.head.wide.weight @ h for h in vectors])
        return [first, self.moments([self.wide(h, first) for h in vectors])]

    def head(self, h: Row, statistics: list[Pair]) -> Row:
        if self.o.head.dense is not None:
            return torch.tanh(self.o.head.dense.weight @ h + self.o.head.dense.bias)
        mean, variance = statistics[1]
        return (self.wide(h, statistics[0]) - mean) / torch.sqrt(variance + 1e-5)

    def distance(self, clean: Row, perturbed: Row) -> Row:
        def kl(p: Row, q: Row) -> Row:
            return (p * torch.log(p / q)).sum()

        p, q = clean.exp() / clean.exp().sum(), perturbed.exp() / perturbed.exp().sum()
        m = (p + q) / 2
        options = {"kl": kl(p, q), "symmetric-kl": (kl(p, q) + kl(q, p)) / 2, "js": (kl(p, m) + kl(q, m)) / 2}
        return options[self.o.divergence]

    def perturbed(self, i: int, x: Row, h: Row, r: Row, statistics: list[Pair]) -> Row:
        return self.head(h + r[0] if self.o.space == "sentence" else self.hidden(x + r), statistics)

    def confined(self, r: Row) -> Row:
        if self.o.adversary.norm == "inf":
            return r.clamp(-self.o.adversary.radius, self.o.adversary.radius)
        return r * min(1.0, self.o.adversary.radius / r.norm().item())

    def attack(self, i: int, x: Row, h: Row, z: Row, statistics: list[Pair]) -> Row:
        r = self.confined(self.noise[i, : 1 if self.o.space == "sentence" else len(x)])
        for _ in range(self.o.adversary.steps):
            leaf = r.detach().requires_grad_()
            (g,) = torch.autograd.grad(self.distance(z, self.perturbed(i, x, h, leaf, statistics)), leaf)
            r = self.confined(
                r
                + (self.o.adversary.step_size or self.o.adversary.radius)
                * (g.sign() if self.o.adversary.norm == "inf" else g / g.norm())
            )
        return r

    def terms(self) -> tuple[Row, Row, list[Row]]:
        rows = range(len(self.ids))
        views = [[self.bert.embeddings(ids[None])[0] for ids in self.ids] for _ in range(2)]
        h, h_plus = ([self.hidden(x) for x in view] for view in views)
        own, other = self.statistics(h), self.statistics(h_plus)
        z, z_plus = [self.head(v, own) for v in h], [self.head(v, other) for v in h_plus]
        contrastive, regulariser, attacks = [], [], []
        for i in rows:
            sims = torch.stack([torch.cosine_similarity(z[i], key, dim=0) / self.o.temperature for key in z_plus])
            contrastive.append(sims.exp().sum().log() - sims[i])
            fixed = [(mean.detach(), variance.detach()) for mean, variance in own]
            attacks.append(self.attack(i, views[0][i].detach(), h[i].detach(), z[i].detach(), fixed))
            clean = z[i].detach() if self.o.stop_gradient else z[i]
            regulariser.append(self.distance(clean, self.perturbed(i, views[0][i], h[i], attacks[i], own)))
        return torch.stack(contrastive).mean(), self.o.weight.fixed * torch.stack(regulariser).mean(), attacks


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"steps": 3},
        {"divergence": "kl", "stop_gradient": False},
        {"divergence": "symmetric-kl", "head": "tanh"},
        {"norm": "inf", "radius": 0.1, "step_size": 0.07, "steps": 2},
        {"space": "token", "steps": 2},
        {"space": "token", "norm": "inf", "radius": 0.1, "step_size": 0.05},
        {"space": "token", "head": "tanh", "stop_gradient": False},
    ],
    ids=str,
)
def test_loss_gradients_and_trajectory_match_algorithm_1(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    objective = randomised(VAdvCSE(exact_model, **{**SETTINGS, **changes}))
    noise = fixed_noise(objective, monkeypatch)
    found = keep_attacks(objective, monkeypatch)
    terms = objective([dict(batch)])
    assert list(terms) == ["contrastive", "regulariser"]
    ours = gradients(sum(terms.values()), objective)
    contrastive, regulariser, attacks = Slow(objective, batch, noise).terms()
    for i, r in enumerate(attacks):
        torch.testing.assert_close(found[0][i, : len(r)], r, rtol=1e-6, atol=1e-8)
        assert (found[0][i, len(r) :] == 0).all()
    assert terms["contrastive"].item() == pytest.approx(contrastive.item(), rel=1e-8)
    assert terms["regulariser"].item() == pytest.approx(regulariser.item(), rel=1e-8)
    theirs = gradients(contrastive + regulariser, objective)
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-9)
    plain = gradients(Slow(objective, batch, noise).terms()[0], objective)
    assert max((theirs[name] - plain[name]).abs().max() for name in plain) > 1e-3, "the regulariser has an effect"


@pytest.mark.parametrize("space", ["sentence", "token"])
@pytest.mark.parametrize("norm", ["2", "inf"])
def test_the_attack_raises_the_distance_inside_the_ball_and_leaves_no_trace(
    make_encoder_model: Any, sentences: list[str], norm: Any, space: Any
) -> None:
    model = make_encoder_model("bert").train()
    radius = 0.1 if norm == "2" else 0.01
    objective = VAdvCSE(model, norm=norm, space=space, radius=radius, steps=2)
    features = dict(model.preprocess(sentences))
    encoder = Encoder(model)
    with encoder.recording() as recording:
        h = encoder.encode(features)
    z, (statistics,) = objective.head.with_statistics(h)
    x = (h[:, None] if space == "sentence" else recording.embeddings).detach()
    mask = objective._mask(features, x)
    start = objective.initial_noise(x, mask)
    objective.initial_noise = lambda _x, _mask: start  # type: ignore[method-assign]
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    modes = [module.training for module in objective.modules()]
    state = torch.get_rng_state()
    r = objective.attack(encoder, features, x, z.detach(), statistics)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in objective.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in objective.parameters())
    torch.testing.assert_close(dict(objective.state_dict()), before, rtol=0, atol=0)
    assert not r.requires_grad

    def distance(at: torch.Tensor) -> float:
        with encoder.attack_mode(), torch.no_grad():
            z_perturbed = objective._project(objective._perturbed(encoder, features, x, at), statistics)
            return objective.distance(z, z_perturbed).item()

    other = project(torch.randn_like(r) * 10, mask, norm, per_coordinate(radius, mask, 16, norm))
    if norm == "inf":
        other = other.sign() * radius * mask.unsqueeze(-1)
    rise, random_rise = distance(r) - distance(r * 0), distance(other) - distance(r * 0)
    assert rise > 1e-4
    assert rise > 1.5 * abs(random_rise), "the direction matters, not only the size"
    assert (sentence_norm(r, mask, norm) <= per_coordinate(radius, mask, 16, norm) * (1 + 1e-5)).all()
    assert (r[mask == 0] == 0).all()
    assert objective.diagnostics["attack_loss_rise"] > 0
    lengths = torch.linalg.vector_norm(r.flatten(1), ord=float(norm), dim=1)
    assert objective.diagnostics["delta_norm"].item() == pytest.approx(lengths.mean().item(), rel=1e-5)
    assert (lengths <= radius * (1 + 1e-5)).all()
    assert lengths.mean() > 0.9 * radius


@pytest.mark.parametrize("space", ["sentence", "token"])
@pytest.mark.parametrize("norm", ["2", "inf"])
def test_the_start_is_a_tenth_of_the_radius_long(exact_model: Any, norm: Any, space: Any) -> None:
    objective = VAdvCSE(exact_model, norm=norm, space=space, radius=3.0)
    mask = torch.ones(400, 1) if space == "sentence" else torch.tensor([[1.0] * 4, [1.0, 0, 0, 0]]).repeat(200, 1)
    noise = objective.initial_noise(torch.zeros(*mask.shape, 16), mask) * mask.unsqueeze(-1)
    lengths = torch.linalg.vector_norm(noise.flatten(1), ord=float(norm), dim=1)
    for rows in (lengths[0::2], lengths[1::2]):  # long and short sentences
        assert rows.mean().item() == pytest.approx(0.3, rel=0.05 if norm == "2" else 0.25)
    torch.testing.assert_close(
        VAdvCSE(exact_model, init_std=0.7).initial_noise(torch.zeros(50, 4, 16), mask[:50]).std().item(),
        0.7,
        rtol=0.1,
        atol=0,
    )


@pytest.mark.parametrize("head", ["bn", "tanh"])
def test_lambda_0_is_simcse_to_the_bit(make_encoder_model: Any, sentences: list[str], head: Any) -> None:
    results = []
    for objective_class, options in ((SimCSE, {}), (VAdvCSE, {"regularisation": 0.0})):
        model = make_encoder_model("bert").train()  # with its dropout
        torch.manual_seed(4)
        objective = objective_class(model, head=head, **options)
        features = dict(model.preprocess(sentences))
        losses = []
        for _ in range(3):
            terms = objective([dict(features)])
            losses.append(sum(terms.values()))
            found = gradients(losses[-1], objective)
        results.append((torch.stack(losses), found, objective.own_state(), torch.get_rng_state()))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)
    assert results[0][1]


@pytest.mark.parametrize("space", ["sentence", "token"])
def test_trainings_with_and_without_the_attack_have_the_same_dropout(
    make_encoder_model: Any, sentences: list[str], space: Any
) -> None:
    """Before the weights differ, the contrastive term and the random state are equal to the bit, step after step."""
    found = []
    for options in ({"regularisation": 0.0}, {"regularisation": 0.7}, {"regularisation_share": 0.2}):
        model = make_encoder_model("bert").train()
        torch.manual_seed(4)
        objective = VAdvCSE(model, space=space, **options)
        features = dict(model.preprocess(sentences))
        found.append([objective([dict(features)])["contrastive"] for _ in range(3)])
        found[-1].append(torch.get_rng_state())
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    torch.testing.assert_close(found[2], found[0], rtol=0, atol=0)
    assert len({term.item() for term in found[0][:3]}) == 3, "there is dropout"


def test_the_noise_is_new_in_each_step_and_goes_on_after_a_checkpoint(
    make_encoder_model: Any, sentences: list[str]
) -> None:
    model = make_encoder_model("bert").train()
    torch.manual_seed(4)
    whole, resumed = VAdvCSE(model), VAdvCSE(model)
    x, mask = torch.zeros(8, 1, 16), torch.ones(8, 1)
    noise = [whole.initial_noise(x, mask) for _ in range(2)]
    resumed.load_own_state(whole.own_state())
    noise += [whole.initial_noise(x, mask), resumed.initial_noise(x, mask)]
    assert torch.equal(noise[2], noise[3])
    assert not any(torch.equal(noise[i], noise[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    with torch.no_grad():  # an evaluation
        assert torch.equal(resumed.initial_noise(x, mask), resumed.initial_noise(x, mask))
    torch.manual_seed(5)
    assert not torch.equal(VAdvCSE(model).initial_noise(x, mask), noise[0]), "a run of another seed has other noise"


@pytest.mark.parametrize("head", ["bn", "tanh"])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_regulariser_gets_its_share_of_the_gradient(
    make_encoder_model: Any, sentences: list[str], head: Any, share: float
) -> None:
    model = make_encoder_model("bert").train()
    torch.manual_seed(4)
    objective = VAdvCSE(model, head=head, regularisation_share=share)
    features = dict(model.preprocess(sentences))
    found = []
    for _ in range(40):
        objective([dict(features)])
        found.append(objective.diagnostics["gradient_share"].item())
    assert found[0] == pytest.approx(share, rel=1e-4), "the first step sets it"
    assert sum(found) / 40 == pytest.approx(share, rel=0.15)
    assert objective.diagnostics["regularisation"] == objective.weight.value


def test_the_share_of_shortened_vectors_is_measured_on_the_whole_ones(exact_model: Any, batch: dict[str, Any]) -> None:
    shortened, whole = (VAdvCSE(exact_model, head="none").double() for _ in range(2))
    whole.noise.place.copy_(shortened.noise.place)
    shortened.use_dimensions({8: 1.0})
    for objective in (shortened, whole):
        objective([dict(batch)])
    torch.testing.assert_close(shortened.weight.running, whole.weight.running, rtol=1e-9, atol=1e-12)
    assert shortened.weight.running[1] == 1


class TestRegulariserWeight:
    def test_by_share_it_follows_the_running_ratio(self) -> None:
        weight = RegulariserWeight(None, 0.2)
        assert weight.value == 0.0
        for regulariser, loss in ((4.0, 2.0), (1.0, 8.0)):
            weight.measure(torch.tensor(regulariser), torch.tensor(loss))
        ratio = 2.0**0.9 * 0.125**0.1
        assert weight.value.item() == pytest.approx(0.25 / ratio)
        for regulariser, loss in ((0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)):
            weight.measure(torch.tensor(regulariser), torch.tensor(loss))
        assert weight.value.item() == pytest.approx(0.25 / ratio), "such steps do not count"

    def test_a_fixed_one_has_no_state(self) -> None:
        weight = RegulariserWeight(0.3, 0.1)
        weight.measure(torch.tensor(4.0), torch.tensor(2.0))
        assert (weight.value, list(weight.state_dict())) == (0.3, [])

    def test_all_processes_have_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        others = torch.tensor([8.0, 3.0]).square()  # the squared norms of another process
        monkeypatch.setattr(regulariser_weight, "mean_over_processes", lambda mine: (mine + others) / 2)
        weight = RegulariserWeight(None, 0.5)
        weight.measure(torch.tensor(2.0), torch.tensor(1.0))
        assert weight.value.item() == pytest.approx(math.sqrt((1 + 9) / (4 + 64))), "as of one batch of both"


def test_permuting_the_batch_changes_nothing(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = randomised(VAdvCSE(exact_model, **SETTINGS, space="token"))
    noise = fixed_noise(objective, monkeypatch)
    expected = objective([dict(batch)])
    order = another_order()
    monkeypatch.setattr(objective, "initial_noise", lambda x, mask: noise[order, : x.shape[1]])
    torch.testing.assert_close(objective([reordered(batch)]), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("space", ["sentence", "token"])
def test_wider_padding_changes_nothing(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, space: Any
) -> None:
    objective = randomised(VAdvCSE(exact_model, **SETTINGS, space=space))
    fixed_noise(objective, monkeypatch)
    torch.testing.assert_close(objective([wider(batch)]), objective([dict(batch)]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("space", ["sentence", "token"])
def test_works_on_every_backbone(make_encoder_model: Any, sentences: list[str], backbone: str, space: Any) -> None:
    model = make_encoder_model(backbone).train()
    objective = VAdvCSE(model, space=space, steps=2, radius=0.2)
    terms = objective([dict(model.preprocess(sentences))])
    assert terms["regulariser"].item() > 0
    assert objective.diagnostics["attack_loss_rise"] > 0
    assert 0 < objective.diagnostics["gradient_share"] < 1
    sum(terms.values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in objective.parameters() if p.grad is not None)


def test_the_clean_side_is_constant_unless_asked_otherwise(exact_model: Any) -> None:
    z, z_perturbed = (torch.randn(4, 16, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for stop_gradient in (True, False):
        objective = VAdvCSE(exact_model, stop_gradient=stop_gradient)
        term = objective.distance(z, z_perturbed)
        clean, perturbed = torch.autograd.grad(term, [z, z_perturbed], allow_unused=True)
        assert (clean is None) is stop_gradient
        assert perturbed.abs().max() > 1e-4


def test_the_perturbed_side_trains_the_encoder_and_not_the_scale_of_the_head(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = randomised(VAdvCSE(exact_model, **SETTINGS))
    fixed_noise(objective, monkeypatch)
    found = gradients(objective([dict(batch)])["regulariser"], objective)
    assert found["model.0.model.encoder.layer.0.output.dense.weight"].abs().max() > 1e-5
    slope, weight = found["head.narrow.weight"], objective.head.narrow.weight
    along = (slope * weight).sum().abs() / (slope.norm() * weight.norm())
    assert along < 1e-5, "with batch statistics that follow the weights, their scale is free"
    assert slope.norm() > 1e-4


def test_the_running_statistics_move_once_a_step(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = randomised(VAdvCSE(exact_model, **SETTINGS, steps=3))
    simcse = SimCSE(exact_model, head="bn").double()
    simcse.head.load_state_dict(objective.head.state_dict())
    fixed_noise(objective, monkeypatch)
    for _ in range(2):
        objective([dict(batch)])
        simcse([dict(batch)])
    torch.testing.assert_close(objective.head.state_dict(), simcse.head.state_dict(), rtol=0, atol=0)
    assert objective.head.wide_norm.running_mean.abs().max() > 1e-3


def test_the_attack_under_bf16_matches_fp32(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    objective = VAdvCSE(model, radius=0.5)
    features = dict(model.preprocess(sentences))
    rises = {}
    for bf16 in (False, True):
        objective.noise.place[1] = 0  # the same noise
        encoder = Encoder(model)
        h = encoder.encode(features).detach()
        z, (statistics,) = objective.head.with_statistics(h)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            r = objective.attack(encoder, features, h[:, None], z.detach(), statistics)
        assert r.dtype == torch.float32
        rises[bf16] = objective.diagnostics["attack_loss_rise"].item()
    assert rises[False] > 1e-4
    assert rises[True] == pytest.approx(rises[False], rel=1e-5)


def test_a_whole_step_under_bf16(make_encoder_model: Any, sentences: list[str]) -> None:
    for space in ("sentence", "token"):
        model = make_encoder_model("bert").train()
        objective = VAdvCSE(model, space=space)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            terms = objective([dict(model.preprocess(sentences))])
        assert all(term.dtype == torch.float32 for term in terms.values())
        sum(terms.values()).backward()
        assert all(torch.isfinite(p.grad).all() for p in objective.parameters() if p.grad is not None)


def test_the_gradient_share_by_hand() -> None:
    vectors = [torch.ones(3, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)]
    contrastive, regulariser = (vectors[0] * 4).sum(), (vectors[0] * 1).sum() + (vectors[1] * 2).sum()
    share = share_of(*gradient_norms([regulariser, contrastive], vectors))
    ours, theirs = (6 * 1 + 4 * 4) ** 0.5, (6 * 16) ** 0.5
    assert share.item() == pytest.approx(ours / (ours + theirs))
    assert not share.requires_grad


@pytest.mark.parametrize("space", ["sentence", "token"])
def test_the_logged_share_is_of_all_sentence_vectors(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, space: Any
) -> None:
    objective = randomised(VAdvCSE(exact_model, **SETTINGS, space=space))
    fixed_noise(objective, monkeypatch)
    vectors: list[torch.Tensor] = []
    encode = Encoder.encode

    def keeping(encoder: Encoder, *args: Any, **options: Any) -> torch.Tensor:
        vectors.append(encode(encoder, *args, **options))
        if vectors[-1].requires_grad and not encoder._attacking:
            vectors[-1].retain_grad()
        return vectors[-1]

    objective([dict(batch)])
    share = objective.diagnostics["gradient_share"].item()
    monkeypatch.setattr(Encoder, "encode", keeping)
    monkeypatch.setattr(objective, "_weigh", lambda *_: None)  # it would add to what is kept
    norms = []
    for name in ("regulariser", "contrastive"):
        vectors.clear()
        objective([dict(batch)])[name].backward()
        grads = [v.grad for v in vectors if v.retains_grad and v.grad is not None]
        norms.append(torch.cat(grads).norm().item())
    assert share == pytest.approx(norms[0] / sum(norms), rel=1e-6)
    assert 0.001 < share < 0.999


@pytest.mark.parametrize("space", ["sentence", "token"])
def test_it_can_be_evaluated_without_gradients(make_encoder_model: Any, sentences: list[str], space: Any) -> None:
    model = make_encoder_model("bert").train()
    objective = VAdvCSE(model, space=space)
    features = dict(model.preprocess(sentences))
    objective([dict(features)])
    objective.eval()
    before = {name: value.clone() for name, value in objective.own_state().items()}
    with torch.no_grad():
        terms = objective([dict(features)])
    assert terms["regulariser"].item() > 0
    assert "gradient_share" not in objective.diagnostics
    torch.testing.assert_close(objective.own_state(), before, rtol=0, atol=0)


@pytest.mark.parametrize("as_released", [False, True])
def test_an_evaluation_in_training_mode_moves_nothing(
    exact_model: Any, batch: dict[str, Any], as_released: bool
) -> None:
    """As a stock trainer evaluates: it sets the mode of the model alone. The attack has gradients even there."""
    objective = VAdvCSE(exact_model, as_released=as_released).double()
    before = {name: value.clone() for name, value in objective.own_state().items()}
    with torch.no_grad():
        objective([dict(batch)])
    torch.testing.assert_close(objective.own_state(), before, rtol=0, atol=0)
    objective([dict(batch)])
    assert not torch.equal(objective.head.narrow_norm.running_mean, before["head.narrow_norm.running_mean"])


@pytest.mark.parametrize("space", ["sentence", "token"])
def test_given_positives_are_used(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, space: Any
) -> None:
    objective = randomised(VAdvCSE(exact_model, **SETTINGS, space=space))
    fixed_noise(objective, monkeypatch)
    simcse = SimCSE(exact_model, head="bn", temperature=0.1).double()
    simcse.head.load_state_dict(objective.head.state_dict())
    others = {key: value.flip(1) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    others["position_ids"] = torch.arange(others["input_ids"].shape[1]).expand_as(others["input_ids"])
    terms, alone = objective([dict(batch), dict(others)]), objective([dict(batch)])
    torch.testing.assert_close(terms["contrastive"], simcse([dict(batch), dict(others)])["contrastive"])
    torch.testing.assert_close(terms["regulariser"], alone["regulariser"], rtol=1e-9, atol=1e-12)
    assert terms["contrastive"] > alone["contrastive"] + 0.1


class TestAsReleased:
    """The quirks that the released code consists of."""

    @pytest.fixture
    def objective(self, exact_model: Any) -> VAdvCSE:
        return VAdvCSE(exact_model, **VAdvCSE.PRESETS["as_released"]).double()

    def test_loss_and_gradients_match_a_rendering_of_the_release(
        self, objective: VAdvCSE, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        objective.weight.fixed = 0.7
        randomised(objective)
        noise = fixed_noise(objective, monkeypatch, scale=1e-5)[:, 0]
        mlp = nn.Sequential(
            objective.head.wide, nn.BatchNorm1d(32), nn.ReLU(), objective.head.narrow, nn.BatchNorm1d(16, affine=False)
        ).double()
        mlp[1].weight, mlp[1].bias = objective.head.wide_norm.weight, objective.head.wide_norm.bias
        ours = gradients(objective([dict(batch)])["regulariser"], objective)

        h = objective.model(dict(batch))["sentence_embedding"]
        z = mlp(h)
        r = (noise / (noise.norm(dim=-1, keepdim=True) + 1e-6)).requires_grad_()
        attacked = nn.functional.kl_div(mlp(h.detach() + r).log_softmax(-1), z.detach().softmax(-1), reduction="sum")
        (g,) = torch.autograd.grad(attacked / 8, r)
        r = r.detach() + 1e-3 * g
        r = r / (r.norm(dim=-1, keepdim=True) + 1e-6)
        p, q = (rows.log_softmax(-1) for rows in (z, mlp(h + r)))
        m = ((p.exp() + q.exp()) / 2).detach()
        js = (m * (m.log() - p)).sum() / 8 / 2 + (m * (m.log() - q)).sum() / 8 / 2
        theirs = gradients(0.7 * js, objective)
        assert ours.keys() == theirs.keys()
        for name, grad in theirs.items():
            torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-9)
        assert max(grad.abs().max() for grad in theirs.values()) > 1e-3

    def test_the_perturbation_stays_the_random_direction_it_started_as(
        self, objective: VAdvCSE, exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ours = VAdvCSE(exact_model, init_std=1e-3).double()
        ours.head.load_state_dict(objective.head.state_dict())
        angles = []
        for each in (objective, ours):
            noise = fixed_noise(each, monkeypatch, scale=1e-5)[:, 0]
            found = keep_attacks(each, monkeypatch)
            each([dict(batch)])
            r = found[0][:, 0]
            cosine = torch.cosine_similarity(r, noise, dim=-1).clamp(-1, 1)
            angles.append(torch.rad2deg(cosine.acos()))
            assert torch.linalg.vector_norm(r, dim=-1).sub(1).abs().max() < 0.05  # 1e-6 is added to tiny norms
        assert angles[0].max() < 0.1
        assert angles[1].min() > 10

    def test_every_pass_moves_the_running_statistics(self, objective: VAdvCSE, batch: dict[str, Any]) -> None:
        mean = objective.head.narrow_norm.running_mean
        mean.fill_(1e9)  # against which a batch's mean is nothing
        objective([dict(batch)])
        torch.testing.assert_close(mean, torch.full_like(mean, 0.9**3 * 1e9), rtol=1e-6, atol=0)

    def test_it_is_of_one_setting(self, exact_model: Any) -> None:
        for option in ({"space": "token"}, {"norm": "inf"}, {"divergence": "kl"}):
            with pytest.raises(ValueError, match="as_released has"):
                VAdvCSE(exact_model, as_released=True, **option)


def test_the_papers_lambda_leaves_the_term_without_effect(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    shares = []
    for options in (VAdvCSE.PRESETS["paper"], {}):
        torch.manual_seed(0)
        objective = VAdvCSE(model, **options)
        objective([dict(model.preprocess(sentences))])
        shares.append(objective.diagnostics["gradient_share"].item())
    assert shares[0] < 1e-5 < 1e-3 < shares[1]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"radius": 0.0}, "radius must be positive, got 0.0"),
        ({"step_size": -1.0}, "step_size must be positive"),
        ({"init_std": 0.0}, "init_std must be positive"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"regularisation": -1e-6}, "must not be negative"),
        ({"regularisation": float("nan")}, "must not be negative"),
        ({"steps": -1}, "must not be negative"),
        ({"norm": "1"}, "norm must be one of 2, inf, got '1'"),
        ({"space": "word"}, "space must be one of sentence, token"),
        ({"divergence": "tv"}, "divergence must be one of js, kl, symmetric-kl"),
        ({"head": "relu"}, "head must be one of tanh, none, bn"),
    ],
)
def test_wrong_options_are_refused(exact_model: Any, option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VAdvCSE(exact_model, **option)


def test_every_option_is_explained() -> None:
    options = describe("v-advcse", VAdvCSE)["options"]
    assert len(options) == 14
    assert all(option["meaning"] for option in options.values())


TWO_PROCESS_CASES: list[dict[str, Any]] = [{}, {"space": "token", "steps": 2}]


def gradients_of_half(model: Any, options: dict[str, Any], sentences: list[str]) -> dict[str, Any]:
    objective = randomised(VAdvCSE(copy.deepcopy(model), **SETTINGS, **options))
    noise = torch.randn(64, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.02
    objective.initial_noise = lambda x, mask: noise[: x.shape[1]].expand_as(x)  # type: ignore[method-assign]
    terms = objective([dict(objective.model.preprocess(sentences))])
    found = gradients(sum(terms.values()), objective)
    state = {name: value for name, value in objective.own_state().items() if "running" in name}
    return {"loss": sum(terms.values()).detach(), "gradients": found, "state": state}


def on_one_of_two(folder: str, *sentences: str) -> None:
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = torch.load(f"{folder}/model.pt", weights_only=False)
    half = list(sentences[4 * rank : 4 * rank + 4])
    torch.save([gradients_of_half(model, case, half) for case in TWO_PROCESS_CASES], f"{folder}/rank-{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_equal_one(exact_model: Any, sentences: list[str], tmp_path: Path, warm: WarmPython) -> None:
    torch.save(exact_model, tmp_path / "model.pt")
    done = warm.run(Path(__file__), str(tmp_path), *sentences, processes=2, function="on_one_of_two")
    assert done.returncode == 0, done.stderr
    ranks = [torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True) for rank in range(2)]
    for case, first, second in zip(TWO_PROCESS_CASES, *ranks, strict=True):
        one = gradients_of_half(exact_model, case, sentences)
        torch.testing.assert_close((first["loss"] + second["loss"]) / 2, one["loss"], rtol=1e-9, atol=1e-11)
        for name, gradient in one["gradients"].items():
            mean = (first["gradients"][name] + second["gradients"][name]) / 2
            torch.testing.assert_close(mean, gradient, rtol=1e-6, atol=1e-9)
        assert all(torch.equal(first["state"][name], second["state"][name]) for name in one["state"])
        torch.testing.assert_close(first["state"], one["state"], rtol=1e-9, atol=1e-11)
