"""L2P-CSR against a slow rendering of its Algorithm 1, its invariants, its ablations and the quirks of its release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from gradient_checks import another_order, assert_same_gradients, gradients, reordered, wider

from holdfast.adversary.weakening import Weakening
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives.l2p_csr import L2PCSR
from holdfast.objectives.simcse import SimCSE
from holdfast.prompt import Wording, with_prompt
from warm import WarmPython

SETTINGS: dict[str, Any] = {"threshold": 0.3, "temperature": 0.1}
"""A threshold that weakens many tokens and features of so short sentences."""

NO_LENGTH = 64


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fix_the_start(objective: L2PCSR) -> tuple[torch.Tensor, torch.Tensor]:
    """Replace the random start by the same numbers in every call, whatever the padding."""
    tokens, features = random(1, objective.layers, 16, NO_LENGTH), random(2, objective.layers, 16, 16)

    def start(x: torch.Tensor) -> Weakening:
        return Weakening(
            tokens[:, : len(x), : x.shape[1]].to(x.dtype) if objective.token_mask else None,
            features[:, : len(x)].to(x.dtype) if objective.feature_mask else None,
        )

    objective.initial_probabilities = start  # type: ignore[method-assign]
    return tokens, features


class Slow:
    """Algorithm 1 on one sentence at a time, around BERT's own embedding module and layers."""

    def __init__(self, objective: L2PCSR, batch: dict[str, Any]) -> None:
        self.o = objective
        self.bert = objective.model.transformers_model
        ids = [row[mask.bool()] for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
        self.ids = ids * 2  # both views

    def project(self, row: int, masks: list[torch.Tensor], delta: torch.Tensor | None = None) -> torch.Tensor:
        """z of a row whose outputs are multiplied by masks (L, d)."""
        hidden = self.bert.embeddings(self.ids[row][None])
        hidden = hidden if delta is None else hidden + delta
        for i, layer in enumerate(self.bert.encoder.layer):
            hidden = hidden * masks[i] if i < len(masks) else hidden
            hidden = layer(hidden)
        return torch.tanh(self.o.head.dense.weight @ hidden[0, 0] + self.o.head.dense.bias)

    def contrast(self, z: list[torch.Tensor]) -> torch.Tensor:
        """InfoNCE of the first half of the rows against the second."""
        half = len(z) // 2
        total = torch.zeros((), dtype=torch.float64)
        for i in range(half):
            sims = [(torch.cosine_similarity(z[i], z[half + j], dim=0) / self.o.temperature).exp() for j in range(half)]
            total = total - torch.log(sims[i] / sum(sims)) / half
        return total

    def mask(self, keep: torch.Tensor) -> torch.Tensor:
        ascent = self.o.ascent
        return keep if ascent.continuous else torch.where(keep >= ascent.threshold, 1.0, 0.0).double()

    def fused(self, keep: list[list[torch.Tensor]], row: int) -> list[torch.Tensor]:
        """M of each layer of a row, (L, d), an element at a time."""
        made = []
        for tokens, features in keep[row]:
            token, feature = self.mask(tokens), self.mask(features)
            elements = [[(t + f) / 2 for f in feature.tolist()] for t in token.tolist()]
            made.append(torch.tensor(elements, dtype=torch.float64))
        return made

    def learn(self, tokens: torch.Tensor, features: torch.Tensor) -> list[list[list[torch.Tensor]]]:
        """The probabilities of each row and layer: (tokens, features)."""
        rows, layers = range(len(self.ids)), range(self.o.layers)
        keep = [[[tokens[n, i, : len(self.ids[i])].clone(), features[n, i].clone()] for n in layers] for i in rows]
        for _ in range(self.o.ascent.steps):
            leaves = [[m.requires_grad_() for m in self.fused(keep, i)] for i in rows]
            loss = self.contrast([self.project(i, leaves[i]) for i in rows])
            slopes = torch.autograd.grad(loss, [leaf for row in leaves for leaf in row])
            for i in rows:
                for n in layers:
                    slope = slopes[i * self.o.layers + n] / 2  # M is the mean of both masks
                    for part, g in ((0, slope.sum(1)), (1, slope.sum(0))):
                        moved = keep[i][n][part] + self.o.ascent.size * g / g.square().sum().sqrt()
                        if (self.o.token_mask, self.o.feature_mask)[part]:
                            keep[i][n][part] = moved.clamp(0, 1)
        return keep

    def terms(self, tokens: torch.Tensor, features: torch.Tensor) -> tuple[torch.Tensor, Any]:
        tokens = tokens if self.o.token_mask else torch.ones_like(tokens)
        features = features if self.o.feature_mask else torch.ones_like(features)
        keep = self.learn(tokens, features)
        return self.contrast([self.project(i, self.fused(keep, i)) for i in range(len(self.ids))]), keep


CASES: list[dict[str, Any]] = [
    {},
    {"steps": 1},
    {"steps": 2, "layers": 2},
    {"token_mask": False},
    {"feature_mask": False},
    {"learning": False},
    {"continuous": True},
]


@pytest.mark.parametrize("changes", CASES)
def test_loss_gradients_and_trajectory_match_algorithm_1(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    objective = L2PCSR(exact_model, **{**SETTINGS, **changes}).double()
    tokens, features = fix_the_start(objective)
    found: list[Weakening] = []
    climb = type(objective.ascent).climb

    def kept(self: Any, *args: Any) -> Any:
        found.append(climb(self, *args)[0])
        return found[-1], []

    monkeypatch.setattr(type(objective.ascent), "climb", kept)
    loss = objective([dict(batch)])["contrastive"]
    ours = gradients(loss, objective)
    slow = Slow(objective, batch)
    expected, keep = slow.terms(tokens, features)
    for i, row in enumerate(keep):
        for n, (token, feature) in enumerate(row):
            if objective.token_mask:
                assert found[0].tokens is not None
                torch.testing.assert_close(found[0].tokens[n, i, : len(token)], token, rtol=1e-6, atol=1e-8)
                assert (found[0].tokens[n, i, len(token) :] == 1).all(), "padding is never weakened"
            if objective.feature_mask:
                assert found[0].features is not None
                torch.testing.assert_close(found[0].features[n, i], feature, rtol=1e-6, atol=1e-8)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-7)
    assert_same_gradients(ours, gradients(expected, objective))


def test_embedding_noise_matches_a_slow_rendering(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = L2PCSR(exact_model, noise="embedding", radius=0.05, temperature=0.1, step_size=0.5).double()
    noise = (random(4, 16, NO_LENGTH, 16) - 0.5) * 0.05
    objective.initial_noise = lambda x: noise[:, : x.shape[1]]  # type: ignore[method-assign]
    loss = objective([dict(batch)])["contrastive"]
    ours = gradients(loss, objective)
    slow = Slow(objective, batch)
    rows = range(16)

    def ball(delta: torch.Tensor) -> torch.Tensor:
        return delta * min(1.0, 0.05 / delta.square().mean().sqrt().item())

    deltas = [ball(noise[i : i + 1, : len(slow.ids[i])]) for i in rows]
    for _ in range(4):
        leaves = [delta.detach().requires_grad_() for delta in deltas]
        slopes = torch.autograd.grad(slow.contrast([slow.project(i, [], leaves[i]) for i in rows]), leaves)
        deltas = [ball(d + 0.5 * 0.05 * g / g.square().mean().sqrt()) for d, g in zip(deltas, slopes, strict=True)]
    expected = slow.contrast([slow.project(i, [], deltas[i]) for i in rows])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-7)
    assert_same_gradients(ours, gradients(expected, objective))
    assert objective.diagnostics["attack_loss_rise"] > 0
    assert objective.diagnostics["delta_norm"].item() <= 0.05 * (1 + 1e-9)


def test_without_masks_it_is_simcse(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    simcse, objective = SimCSE(model), L2PCSR(model, token_mask=False, feature_mask=False)
    objective.head.load_state_dict(simcse.head.state_dict())
    results = []
    for each in (simcse, objective):
        torch.manual_seed(0)  # dropout is on
        loss = each([dict(model.preprocess(sentences))])["contrastive"]
        results.append((loss.item(), gradients(loss, each)))
    assert results[0][0] == results[1][0]
    for name, grad in results[0][1].items():
        assert torch.equal(grad, results[1][1][name])


def test_learning_raises_the_loss_and_leaves_no_trace(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = L2PCSR(exact_model, **SETTINGS).double()
    fix_the_start(objective)
    exact_model.transformers_model.encoder.layer[1].eval()  # a module in another mode than the rest must stay so
    modes = [module.training for module in objective.modules()]
    state = torch.get_rng_state()
    encoder = Encoder(exact_model)
    features, x = objective._embedded(encoder, batch)
    losses = objective._learn_masks(encoder, features, x.detach(), None)[1]
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in objective.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in objective.parameters())
    assert len(losses) == 4
    total = objective([dict(batch)])["contrastive"].item()
    rise = objective.diagnostics["attack_loss_rise"].item()
    assert rise > 0.5
    assert total == pytest.approx(losses[0].item() + rise)
    downhill = L2PCSR(exact_model, **SETTINGS).double()
    downhill.head.load_state_dict(objective.head.state_dict())
    fix_the_start(downhill)
    downhill.ascent = type(objective.ascent)(4, -0.5, 0.3)
    assert downhill([dict(batch)])["contrastive"] < losses[0], "the direction matters, not only the size"


def test_the_last_pass_repeats_the_dropout_of_the_first(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    objective = L2PCSR(model, steps=2, step_size=1e-12)  # masks that stay as they are
    features = dict(model.preprocess(sentences))
    seen: list[float] = []
    compute_loss = objective.compute_loss
    objective.compute_loss = lambda *z: seen.append(compute_loss(*z)) or seen[-1]  # type: ignore[method-assign]
    objective([features])
    first, second, last = (value.item() for value in seen)  # type: ignore[attr-defined]
    assert first != pytest.approx(second, rel=1e-4), "dropout is on in the attack"
    assert last == pytest.approx(first, rel=1e-6)


def test_diagnostics_say_what_share_is_weakened(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = L2PCSR(exact_model, **SETTINGS, learning=False).double()
    tokens, features = fix_the_start(objective)
    objective([dict(batch)])
    real = torch.cat([batch["attention_mask"]] * 2).bool()
    drawn = tokens[:, :, : real.shape[1]][:, real]
    assert objective.diagnostics["weakened_tokens"].item() == pytest.approx((drawn < 0.3).double().mean().item())
    assert objective.diagnostics["weakened_features"].item() == pytest.approx((features < 0.3).double().mean().item())
    assert "attack_loss_rise" not in objective.diagnostics


def test_masks_are_those_of_the_loss(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = L2PCSR(exact_model, **SETTINGS).double()
    fix_the_start(objective)
    encoder = Encoder(exact_model)
    masks = objective.masks(encoder, batch)
    rows, length = batch["attention_mask"].shape
    assert masks.tokens is not None
    assert masks.features is not None
    assert masks.tokens.shape == (3, 2 * rows, length)
    assert masks.features.shape == (3, 2 * rows, 16)
    assert set(masks.tokens.unique().tolist()) == {0.0, 1.0}
    features, x = objective._embedded(encoder, batch)
    real = batch["attention_mask"].bool().repeat(2, 1)
    loss = objective._perturbed_loss(encoder, features, x, {"weakening": masks.fused(real)}, None)
    assert loss.item() == pytest.approx(objective([dict(batch)])["contrastive"].item(), rel=1e-9)
    with pytest.raises(ValueError, match="no masks"):
        L2PCSR(exact_model, token_mask=False, feature_mask=False).masks(encoder, batch)


def test_permuting_the_batch_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = L2PCSR(exact_model, **SETTINGS).double()
    tokens, features = fix_the_start(objective)
    expected = objective([dict(batch)])
    order = another_order()
    rows = torch.cat([order, order + 8])
    objective.initial_probabilities = lambda x: Weakening(tokens[:, rows, : x.shape[1]], features[:, rows])  # type: ignore[method-assign]
    torch.testing.assert_close(objective([reordered(batch)]), expected, rtol=1e-7, atol=1e-9)


def test_wider_padding_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = L2PCSR(exact_model, **SETTINGS).double()
    fix_the_start(objective)
    torch.testing.assert_close(objective([wider(batch)]), objective([dict(batch)]), rtol=1e-7, atol=1e-9)


def test_it_trains_on_every_backbone(backbone: str, make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model(backbone).train()
    objective = L2PCSR(model, threshold=0.3, temperature=0.5, step_size=0.5)
    torch.manual_seed(0)
    terms = objective([dict(model.preprocess(sentences))])
    grads = gradients(terms["contrastive"], objective)
    assert all(torch.isfinite(grad).all() for grad in grads.values())
    assert max(grad.abs().max() for grad in grads.values()) > 1e-4
    assert objective.diagnostics["attack_loss_rise"] > 0.01


@pytest.fixture
def prompt_model(masked_lm: Path) -> Any:
    wording = Wording(("the man sings", "a dog sleeps"), "in {mask}")  # words that the small tokeniser knows
    model = with_prompt(load_sentence_transformer(str(masked_lm), device="cpu"), wording=wording).double().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def test_with_a_prompt_each_view_has_its_own_template(prompt_model: Any, sentences: list[str]) -> None:
    simcse, objective = SimCSE(prompt_model).double(), L2PCSR(prompt_model, layers=2, threshold=0.3).double()
    objective.head.load_state_dict(simcse.head.state_dict())
    features = dict(prompt_model.preprocess(sentences))
    assert objective([features])["contrastive"].item() > 0
    assert objective.diagnostics["attack_loss_rise"].item() > 0.1
    objective.ascent = type(objective.ascent)(0, 0.5, 0.0)  # a threshold that keeps everything
    expected = simcse([features])["contrastive"]
    torch.testing.assert_close(objective([features])["contrastive"], expected, rtol=1e-9, atol=1e-12)
    first, second = Encoder(prompt_model).encode(features, views=2).chunk(2)
    assert (first - second).abs().max() > 1e-3, "with one template for both there would be nothing to see"
    with pytest.raises(UserError, match="as_released has no attention mask"):
        L2PCSR(prompt_model, layers=2, as_released=True)


def test_under_bf16_the_masks_are_nearly_those_of_fp32(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")  # no dropout
    torch.manual_seed(0)
    features = dict(model.preprocess(sentences))
    for steps, agreement in ((1, 0.98), (4, 0.9)):  # a mask that flips changes the gradients of the steps after it
        objective = L2PCSR(model, threshold=0.3, temperature=0.5, steps=steps)
        fix_the_start(objective)
        learned = {}
        for bf16 in (False, True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                learned[bf16] = objective.masks(Encoder(model), features)
        for full, half in zip(learned[False], learned[True], strict=True):
            assert full is not None
            assert half is not None
            assert half.dtype == torch.float32
            assert (full == half).float().mean() > agreement


class TestAsReleased:
    """The quirks that RELEASED behaviour consists of, each by itself."""

    @pytest.fixture
    def objective(self, exact_model: Any) -> L2PCSR:
        return L2PCSR(exact_model, **{**SETTINGS, **L2PCSR.PRESETS["as_released"]}).double()

    def test_one_feature_mask_is_shared_by_all_rows(self, objective: L2PCSR, batch: dict[str, Any]) -> None:
        masks = objective.masks(Encoder(objective.model), batch)
        assert masks.features is not None
        assert masks.tokens is not None
        assert masks.features.shape == (3, 1, 16)
        assert masks.tokens.shape[:2] == (3, 16)

    def test_a_token_moves_by_a_tenth(
        self, objective: L2PCSR, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        objective.ascent = type(objective.ascent)(1, 0.1, 0.3, as_released=True)
        start = Weakening(random(5, 3, 16, 16) * 0.5 + 0.25, random(6, 3, 1, 16) * 0.5 + 0.25)
        objective.initial_probabilities = lambda x: start  # type: ignore[method-assign]
        found: list[Weakening] = []
        climb = type(objective.ascent).climb
        monkeypatch.setattr(
            type(objective.ascent), "climb", lambda *args: found.append(climb(*args)[0]) or (found[0], [])
        )
        objective([dict(batch)])
        assert found[0].tokens is not None
        assert found[0].features is not None
        assert start.tokens is not None
        assert start.features is not None
        moved = (found[0].tokens - start.tokens).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, 0.1))
        length = (found[0].features - start.features).norm(dim=-1)
        torch.testing.assert_close(length, torch.full_like(length, 0.1))

    def test_padding_is_attended_and_weakened(self, objective: L2PCSR, batch: dict[str, Any]) -> None:
        encoder = Encoder(objective.model)
        features, x = objective._embedded(encoder, batch)
        weak = [torch.full((16, x.shape[1], 1), 0.5, dtype=torch.float64)] * 3
        with encoder.perturbed(embeddings=x, weakening=weak):
            ours = encoder.encode(features, views=2)
        hidden = x
        for layer in objective.model.transformers_model.encoder.layer:
            hidden = layer(hidden * 0.5)  # without any attention mask
        torch.testing.assert_close(ours, hidden[:, 0], rtol=1e-9, atol=1e-10)
        assert features["attention_mask"].all()
        assert not batch["attention_mask"].all(), "left as it was"
        found: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
        perturbed_loss = objective._perturbed_loss
        objective._perturbed_loss = lambda *args: found.append(args[3]["weakening"]) or perturbed_loss(*args)  # type: ignore[method-assign]
        zeros = Weakening(torch.zeros(3, 16, x.shape[1]).double(), torch.zeros(3, 1, 16).double())
        objective.initial_probabilities = lambda x: zeros  # type: ignore[method-assign]
        objective([dict(batch)])
        assert len(found[0]) == 3
        assert all(not token.any() and not feature.any() for token, feature in found[0])


def test_views_that_find_their_own_sentence(exact_model: Any, batch: dict[str, Any]) -> None:
    plain = L2PCSR(exact_model, token_mask=False, feature_mask=False).double()
    plain([dict(batch)])
    assert plain.diagnostics["views_found"] == 1.0, "both views are equal without dropout"
    found = []
    for size in (1e-3, 0.5):
        objective = L2PCSR(exact_model, step_size=size, layers=1, temperature=0.1).double()
        fix_the_start(objective)
        objective([dict(batch)])
        found.append(objective.diagnostics["views_found"].item())
    assert found[0] > found[1]
    assert found[1] * 8 == pytest.approx(round(found[1] * 8)), "a share of eight sentences"


def test_presets_keep_the_paper_s_step(exact_model: Any) -> None:
    assert L2PCSR(exact_model).ascent.size == 0.05
    assert L2PCSR.PRESETS["paper"]["step_size"] == 0.5
    assert L2PCSR.PRESETS["as_released"]["step_size"] == 0.1


def test_wrong_options_are_refused(exact_model: Any, batch: dict[str, Any], make_encoder_model: Any) -> None:
    for wrong in ({"steps": -1}, {"step_size": 0.0}, {"radius": 0.0}, {"threshold": 1.5}):
        with pytest.raises(ValueError, match="required"):
            L2PCSR(exact_model, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        L2PCSR(exact_model, temperature=0.0)
    with pytest.raises(ValueError, match="noise must be one of mask, embedding"):
        L2PCSR(exact_model, noise="words")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no masks"):
        L2PCSR(exact_model, noise="embedding", continuous=True)
    with pytest.raises(UserError, match="layers=3 does not fit a model of 2 layers"):
        L2PCSR(make_encoder_model("bert", layers=2))
    with pytest.raises(ValueError, match="takes one column"):
        L2PCSR(exact_model)([dict(batch), dict(batch)])


def half_of_the_batch(folder: str) -> None:
    """What one of two processes does: its rows of both views, and the mean of the gradients over the processes."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    torch.set_num_threads(1)
    saved = torch.load(f"{folder}/case.pt", weights_only=False)
    objective, batch = saved["objective"], saved["batch"]
    share = 8 // world
    mine = slice(rank * share, (rank + 1) * share)
    rows = torch.cat([torch.arange(8)[mine], torch.arange(8)[mine] + 8])
    tokens, features = random(1, 3, 16, NO_LENGTH), random(2, 3, 16, 16)
    objective.initial_probabilities = lambda x: Weakening(tokens[:, rows, : x.shape[1]], features[:, rows])
    own = {key: value[mine] if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    found = gradients(objective([own])["contrastive"], objective)
    for grad in found.values():
        dist.all_reduce(grad)
        grad /= world
    if rank == 0:
        torch.save(found, f"{folder}/gradients-{world}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_equal_one(exact_model: Any, batch: dict[str, Any], tmp_path: Path, warm: WarmPython) -> None:
    objective = L2PCSR(exact_model, **SETTINGS).double()
    for world in (1, 2):
        folder = tmp_path / str(world)
        folder.mkdir()
        torch.save({"objective": objective, "batch": batch}, folder / "case.pt")
        done = warm.run(Path(__file__), str(folder), processes=world, function="half_of_the_batch")
        assert done.returncode == 0, done.stderr
    one, two = (torch.load(tmp_path / str(world) / f"gradients-{world}.pt") for world in (1, 2))
    assert_same_gradients(two, one)


def test_the_noise_starts_near_the_middle_of_its_ball(exact_model: Any) -> None:
    torch.manual_seed(0)
    noise = L2PCSR(exact_model, noise="embedding", radius=0.02).initial_noise(torch.zeros(300, 8, 16))
    assert noise.std().item() == pytest.approx(0.002, rel=0.02)
