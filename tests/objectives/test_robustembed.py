"""RobustEmbed against a slow rendering of its Algorithm 1, its invariants, and the quirks of its release."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gradient_checks import another_order, gradients, reordered, wider

from holdfast.adversary.balls import sentence_norm
from holdfast.encoder import Encoder
from holdfast.objectives import RobustEmbed, SimCSE

SETTINGS: dict[str, Any] = {"pgd_size": 0.02, "fgsm_size": 0.03, "mix": 0.4, "gamma": 0.3, "temperature": 0.1}


def fixed_noise(objective: RobustEmbed, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """Replace δ⁰ by the same noise in every call."""
    noise = torch.randn(8, 64, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 0.01
    monkeypatch.setattr(objective, "initial_noise", lambda x: noise[: x.shape[0], : x.shape[1]].to(x.dtype))
    return noise


class Slow:
    """Algorithm 1 on one sentence at a time, around BERT's own embedding and encoder modules."""

    def __init__(self, objective: RobustEmbed, batch: dict[str, Any], noise: torch.Tensor) -> None:
        self.o, self.noise = objective, noise
        self.bert = objective.model.transformers_model
        self.ids = [row[mask.bool()] for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]

    def embed(self, i: int) -> torch.Tensor:
        return self.bert.embeddings(self.ids[i][None])

    def project_head(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.bert.encoder(x).last_hidden_state[0, 0]
        return torch.tanh(self.o.head.dense.weight @ hidden + self.o.head.dense.bias)

    def contrast(self, query: torch.Tensor, views: list[list[torch.Tensor]], i: int) -> torch.Tensor:
        def sim(key: torch.Tensor) -> torch.Tensor:
            return (torch.cosine_similarity(query, key, dim=0) / self.o.temperature).exp()

        above = sum(sim(keys[i]) for keys in views)
        below = sum(sim(key) for keys in views for key in keys)
        return -torch.log(above / below)

    def attack(self, keys: list[torch.Tensor]) -> list[torch.Tensor]:
        a = self.o.ascent
        deltas = []
        for i in range(len(self.ids)):
            x = self.embed(i).detach()
            delta = self.noise[i : i + 1, : x.shape[1]].clamp(-a.radius, a.radius)
            for t in range(1, max(a.pgd_steps, a.fgsm_steps) + 1):
                leaf = delta.detach().requires_grad_()
                # The batch's mean scales this sentence's gradient by 1/B, which neither step sees.
                (g,) = torch.autograd.grad(self.contrast(self.project_head(x + leaf), [keys], i), leaf)
                pgd = (delta + a.pgd_size * g / g.abs().max()).clamp(-a.radius, a.radius)
                fgsm = (delta + a.fgsm_size * g.sign()).clamp(-a.radius, a.radius)
                both = t <= a.pgd_steps and t <= a.fgsm_steps
                delta = a.mix * pgd + (1 - a.mix) * fgsm if both else (pgd if t <= a.pgd_steps else fgsm)
            deltas.append(delta)
        return deltas

    def terms(self) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        rows = range(len(self.ids))
        x = [self.embed(i) for i in rows]
        z, z_plus = [self.project_head(e) for e in x], [self.project_head(self.embed(i)) for i in rows]
        deltas = self.attack([key.detach() for key in z_plus])
        z_adv = [self.project_head(x[i] + deltas[i]) for i in rows]
        robust = torch.stack([self.contrast(z[i], [z_plus, z_adv], i) for i in rows]).mean()
        adversarial = torch.stack([self.contrast(z_adv[i], [z_plus], i) for i in rows]).mean()
        return robust, self.o.gamma * adversarial, deltas


@pytest.mark.parametrize("changes", [{}, {"pgd_steps": 2, "fgsm_steps": 3}, {"radius": 0.05}])
def test_loss_gradients_and_trajectory_match_algorithm_1(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    objective = RobustEmbed(exact_model, **{**SETTINGS, **changes}).double()
    noise = fixed_noise(objective, monkeypatch)
    found: list[torch.Tensor] = []
    attack = objective.attack
    monkeypatch.setattr(objective, "attack", lambda *args: found.append(attack(*args)) or found[-1])
    terms = objective([dict(batch)])
    ours = gradients(sum(terms.values()), objective)
    robust, adversarial, deltas = Slow(objective, batch, noise).terms()
    for i, delta in enumerate(deltas):
        torch.testing.assert_close(found[0][i, : delta.shape[1]], delta[0], rtol=1e-6, atol=1e-8)
        assert (found[0][i, delta.shape[1] :] == 0).all()
    assert terms["robust"].item() == pytest.approx(robust.item(), rel=1e-7)
    assert terms["adversarial"].item() == pytest.approx(adversarial.item(), rel=1e-7)
    theirs = gradients(robust + adversarial, objective)
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_the_attack_raises_the_loss_inside_the_ball_and_leaves_no_trace(
    make_encoder_model: Any, sentences: list[str], norm: Any
) -> None:
    model = make_encoder_model("bert").train()
    objective = RobustEmbed(model, norm=norm, fgsm_size=0.02, pgd_size=1e-3)
    features = dict(model.preprocess(sentences))
    encoder = Encoder(model)
    with encoder.recording() as recording:
        z_plus = objective.head(encoder.encode(features)).detach()
    x, mask = recording.embeddings.detach(), features["attention_mask"].float()
    modes = [module.training for module in model.modules()]
    noise = objective.initial_noise(x) * 0
    objective.initial_noise = lambda _x: noise  # type: ignore[method-assign]
    state = torch.get_rng_state()
    delta = objective.attack(encoder, features, x, z_plus)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in objective.parameters())

    def loss(at: torch.Tensor) -> float:
        with encoder.attack_mode(), torch.no_grad():
            z = objective.head(objective._encode_perturbed(encoder, features, x, at))
            return objective._adversarial_term(z, z_plus, None).item()

    assert loss(delta) > loss(torch.zeros_like(delta)) + 1e-3
    assert loss(delta) > loss(-delta), "the direction matters, not only the size"
    assert (sentence_norm(delta, mask, norm) <= objective.ascent.radius * (1 + 1e-5)).all()
    assert (delta[mask == 0] == 0).all()
    assert objective.diagnostics["attack_loss_rise"] > 0


def test_the_rise_under_bf16_matches_fp32(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    objective = RobustEmbed(model, temperature=0.5)  # the paper's steps, below the spacing of bf16 numbers near 1
    features = dict(model.preprocess(sentences))
    encoder = Encoder(model)
    with encoder.recording() as recording:
        z_plus = objective.head(encoder.encode(features)).detach()
    x = recording.embeddings.detach()

    def loss(at: torch.Tensor) -> float:
        with encoder.attack_mode(), torch.no_grad():
            z = objective.head(objective._encode_perturbed(encoder, features, x, at))
            return objective._adversarial_term(z, z_plus, None).item()

    rises = {}
    for bf16 in (False, True):
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            delta = objective.attack(encoder, features, x, z_plus)
        assert delta.dtype == torch.float32
        rises[bf16] = loss(delta) - loss(torch.zeros_like(delta))  # both judged in fp32
    assert rises[False] > 1e-3
    assert rises[True] == pytest.approx(rises[False], rel=0.05)


def test_without_its_two_additions_it_is_simcse(exact_model: Any, batch: dict[str, Any]) -> None:
    simcse = SimCSE(exact_model).double()
    objective = RobustEmbed(exact_model, gamma=0.0, positives="clean").double()
    objective.head.load_state_dict(simcse.head.state_dict())
    terms = objective([dict(batch)])
    assert terms["adversarial"].item() == 0
    torch.testing.assert_close(terms["robust"], simcse([dict(batch)])["contrastive"], rtol=1e-9, atol=1e-12)


def test_permuting_the_batch_permutes_everything(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = RobustEmbed(exact_model, **SETTINGS).double()
    noise = fixed_noise(objective, monkeypatch)
    expected = objective([dict(batch)])
    order = another_order()
    monkeypatch.setattr(objective, "initial_noise", lambda x: noise[order, : x.shape[1]])
    torch.testing.assert_close(objective([reordered(batch)]), expected, rtol=1e-7, atol=1e-9)


def test_wider_padding_changes_nothing(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = RobustEmbed(exact_model, **SETTINGS).double()
    fixed_noise(objective, monkeypatch)
    torch.testing.assert_close(objective([wider(batch)]), objective([dict(batch)]), rtol=1e-7, atol=1e-9)


def test_clean_negatives_leave_the_adversarial_keys_of_others_out(exact_model: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    z, plus, adv = (torch.randn(4, 16, generator=generator, dtype=torch.float64) for _ in range(3))
    objective = RobustEmbed(exact_model, negatives="clean", temperature=0.5)
    unit = torch.nn.functional.normalize
    total = 0.0
    for i in range(4):
        above = sum((unit(z[i], dim=0) @ unit(keys[i], dim=0) / 0.5).exp() for keys in (plus, adv))
        others = sum((unit(z[i], dim=0) @ unit(plus[j], dim=0) / 0.5).exp() for j in range(4) if j != i)
        total += -torch.log(above / (above + others)).item() / 4
    assert objective.compute_loss(z, plus, adv)["robust"].item() == pytest.approx(total, rel=1e-10)


def test_x_adv_keeps_the_embedding_dropout_of_x_and_draws_fresh_encoder_dropout(
    make_encoder_model: Any, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_encoder_model("bert").train()
    objective = RobustEmbed(model, pgd_steps=0, fgsm_steps=0, radius=0.0, head="none")  # δ = 0
    vectors: list[torch.Tensor] = []
    monkeypatch.setattr(objective, "compute_loss", lambda *zs: vectors.extend(zs[:3]) or {"robust": zs[0].sum()})
    torch.manual_seed(0)
    objective([dict(model.preprocess(sentences))])
    z, _, z_adv = vectors
    assert (z - z_adv).abs().max() > 1e-3, "x_adv must not be the same pass as x"
    for module in model.transformers_model.encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    vectors.clear()
    objective([dict(model.preprocess(sentences))])
    z, z_plus, z_adv = vectors
    torch.testing.assert_close(z, z_adv, rtol=1e-4, atol=1e-5)  # with the encoder's dropout off only x's masks remain
    assert (z - z_plus).abs().max() > 1e-3, "x⁺ has embedding masks of its own"


class TestAsReleased:
    """The quirks that RELEASED behaviour consists of, each by itself."""

    @pytest.fixture
    def objective(self, exact_model: Any) -> RobustEmbed:
        return RobustEmbed(exact_model, **RobustEmbed.PRESETS["as_released"]).double()

    def test_delta_is_clamped_to_a_millionth(self, objective: RobustEmbed, batch: dict[str, Any]) -> None:
        encoder = Encoder(objective.model)
        with encoder.recording() as recording:
            z_plus = objective.head(encoder.encode(batch)).detach()
        delta = objective.attack(encoder, batch, recording.embeddings.detach(), z_plus)
        assert delta.abs().max().item() <= 1e-6
        assert delta.abs().max().item() > 0.9e-6

    def test_pairs_are_of_different_sentences(self, objective: RobustEmbed) -> None:
        from holdfast.objectives.robustembed import _released_pairs

        target, perturbed = torch.arange(4.0)[:, None], torch.arange(4.0)[:, None] + 10
        queries, keys = _released_pairs(target, perturbed)
        assert queries.flatten().tolist() == [0, 2, 10, 12]
        assert keys.flatten().tolist() == [1, 3, 11, 13]

    def test_embeddings_are_embedded_twice_under_borrowed_masks(
        self, objective: RobustEmbed, batch: dict[str, Any]
    ) -> None:
        bert = objective.model.transformers_model
        with torch.no_grad():
            x = bert.embeddings(batch["input_ids"])
            ours = objective._encode_perturbed(Encoder(objective.model), batch, x, torch.zeros_like(x))
            borrowed = batch["attention_mask"][[4, 4, 5, 5, 6, 6, 7, 7]]
            theirs = bert(inputs_embeds=x, attention_mask=borrowed).last_hidden_state[:, 0]
            once = bert(input_ids=batch["input_ids"], attention_mask=borrowed).last_hidden_state[:, 0]
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
        assert (ours - once).abs().max() > 1e-3

    def test_the_adversarial_view_is_no_positive(self, objective: RobustEmbed, batch: dict[str, Any]) -> None:
        simcse = SimCSE(objective.model).double()
        simcse.head.load_state_dict(objective.head.state_dict())
        terms = objective([dict(batch)])
        torch.testing.assert_close(terms["robust"], simcse([dict(batch)])["contrastive"], rtol=1e-9, atol=1e-12)
        assert terms["adversarial"].item() > 0

    def test_four_steps_are_made(self, objective: RobustEmbed) -> None:
        assert objective.ascent.pgd_steps == objective.ascent.fgsm_steps == 4


def test_a_second_column_is_refused(exact_model: Any, batch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="takes one column"):
        RobustEmbed(exact_model)([dict(batch), dict(batch)])


@pytest.mark.parametrize(("preset", "norm"), [("uscal", "2"), ("atcl", "inf")])
def test_one_step_presets_contrast_with_the_gradient_step(
    exact_model: Any, batch: dict[str, Any], preset: str, norm: Any
) -> None:
    objective = RobustEmbed(exact_model, **RobustEmbed.PRESETS[preset]).double()
    encoder = Encoder(exact_model)
    with encoder.recording() as recording:
        z = objective.head(encoder.encode(batch))
    x = recording.embeddings.detach()
    # Without dropout x⁺ is x, where the loss is flat for its own pair but not for the others: there is a gradient.
    delta = objective.attack(encoder, batch, x, z.detach())
    leaf = torch.zeros_like(x, requires_grad=True)
    with encoder.perturbed(embeddings=x, delta=leaf):
        loss = objective._adversarial_term(objective.head(encoder.encode(batch)), z.detach(), None)
    (slope,) = torch.autograd.grad(loss, leaf)
    radius = objective.ascent.radius
    mask = batch["attention_mask"].double()
    step = slope.sign() * mask[..., None] if norm == "inf" else slope / sentence_norm(slope, mask, "2")[:, None, None]
    torch.testing.assert_close(delta, radius * step, rtol=1e-9, atol=1e-12)
    with encoder.perturbed(embeddings=x, delta=delta):
        z_adversarial = objective.head(encoder.encode(batch))
    terms = objective([batch])
    expected = SimCSE(exact_model, temperature=objective.temperature).compute_loss(z, z_adversarial)
    torch.testing.assert_close(terms["robust"], expected, rtol=1e-9, atol=1e-12)
    assert terms["adversarial"] == 0


@pytest.mark.parametrize("on", [False, True])
def test_dropout_in_the_attack_is_an_option(make_encoder_model: Any, sentences: list[str], on: bool) -> None:
    model = make_encoder_model("bert").train()
    objective = RobustEmbed(model, attack_dropout=on, init_std=0.0)
    encoder = objective.encoder
    features = dict(model.preprocess(sentences))
    with torch.no_grad(), encoder.recording() as recording:
        keys = objective.head(encoder.encode(features))
    deltas = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        deltas.append(objective.attack(encoder, features, recording.embeddings, keys))
    assert torch.equal(*deltas) is not on


@pytest.mark.parametrize(
    ("options", "radius"),
    [
        ({}, 5e-3),
        ({"mix": 1.0}, 5e-3),
        ({"fgsm_steps": 0}, 5e-5),
        ({"fgsm_steps": 0, "mix": 1.0, "pgd_steps": 3, "pgd_size": 0.01}, 0.03),
    ],
)
def test_the_radius_is_what_the_parts_can_reach(
    exact_model: Any, batch: dict[str, Any], options: dict[str, Any], radius: float
) -> None:
    objective = RobustEmbed(exact_model, **options).double()
    assert objective.ascent.radius == pytest.approx(radius)
    objective([dict(batch)])
    assert objective.diagnostics["delta_norm"] > radius / 100
    assert objective.diagnostics["attack_loss_rise"] > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"radius": -1.0}, "radius must not be negative"),
        ({"pgd_steps": -3}, "pgd_steps must not be negative"),
        ({"fgsm_steps": -3}, "fgsm_steps must not be negative"),
        ({"fgsm_size": -1e-3}, "fgsm_size must not be negative"),
        ({"init_std": -1.0}, "init_std must not be negative"),
        ({"gamma": -1.0}, "gamma must not be negative"),
        ({"gamma": float("nan")}, "gamma must not be negative"),
        ({"temperature": -1.0}, "temperature must be positive"),
        ({"mix": 3.0}, r"mix must lie in \[0, 1\]"),
        ({"norm": "3"}, "norm must be one of 1, 2, inf"),
        ({"trajectory": "both"}, "trajectory must be one of"),
        ({"negatives": "none"}, "negatives must be one of"),
        ({"positives": "none"}, "positives must be one of"),
        ({"pgd_steps": 0, "fgsm_steps": 0}, "nothing would be attacked"),
        ({"fgsm_steps": 0, "mix": 0.0}, "nothing would be attacked"),
        ({"fgsm_steps": 0, "mix": 0.0, "radius": 5e-3}, "nothing would be attacked"),
        ({"pgd_steps": 0, "mix": 1.0}, "nothing would be attacked"),
        ({"pgd_size": 0.0, "fgsm_size": 0.0}, "nothing would be attacked"),
    ],
)
def test_wrong_options_are_refused(exact_model: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RobustEmbed(exact_model, **options)


def test_the_attack_starts_near_the_middle_of_its_ball(exact_model: Any) -> None:
    x = torch.zeros(300, 8, 16)
    torch.manual_seed(0)
    for options, std in (({}, 5e-4), ({"radius": 0.2}, 0.02), ({"init_std": 0.3}, 0.3)):
        noise = RobustEmbed(exact_model, **options).initial_noise(x)  # type: ignore[arg-type]
        assert noise.std().item() == pytest.approx(std, rel=0.02)
        assert noise.mean().item() == pytest.approx(0.0, abs=0.02 * std)


def test_clean_negatives_of_a_process_leave_its_own_keys_out() -> None:
    from holdfast.objectives.robustembed import _clean_negatives

    generator = torch.Generator().manual_seed(0)
    z, plus, adv = (torch.randn(8, 16, generator=generator, dtype=torch.float64) for _ in range(3))
    whole = _clean_negatives(z, [plus, adv], 0.5, 0, None)
    halves = [_clean_negatives(z[start : start + 4], [plus, adv], 0.5, start, None) for start in (0, 4)]
    torch.testing.assert_close(sum(halves) / 2, whole)


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_the_papers_steps_do_not_reach_the_default_ball_and_reach_a_smaller_one(
    exact_model: Any, batch: dict[str, Any], norm: Any
) -> None:
    shares = {}
    for radius in (None, 1e-3):
        objective = RobustEmbed(exact_model, norm=norm, radius=radius).double()
        objective.initial_noise = torch.zeros_like  # type: ignore[method-assign,assignment]
        objective([dict(batch)])
        shares[radius] = objective.diagnostics["projected"].item()
    assert shares[None] == 0.0
    assert shares[1e-3] > 0.1
