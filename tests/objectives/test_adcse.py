"""AdCSE against a slow rendering of its Algorithm 1, its invariants, and the quirks of its release."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from gradient_checks import reordered, wider

from holdfast.encoder import Encoder
from holdfast.objectives import SimCSE, adcse
from holdfast.objectives.adcse import AdCSE

SETTINGS: dict[str, Any] = {
    "temperature": 0.1,
    "negatives": 5,
    "negatives_learning_rate": 0.4,
    "negatives_step": "raw",
    "momentum": 0.7,
    "momentum_warm_up": False,
}


def build(model: Any, **changes: Any) -> AdCSE:
    torch.manual_seed(0)
    objective = AdCSE(model, **{**SETTINGS, **changes}).double()
    torch.nn.init.normal_(objective.head.dense.weight, std=0.5)
    if objective.follower is not None and objective.key_head == "own":
        objective.follower.followed_head.load_state_dict(objective.head.state_dict())
    objective.followed_by_trainer = True
    return objective


def descend(objective: AdCSE, rate: float = 0.05) -> dict[str, torch.Tensor]:
    """One step of plain SGD on what the optimiser owns; returns the gradients."""
    gradients = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    with torch.no_grad():
        for parameter in objective.parameters():
            if parameter.grad is not None:
                parameter -= rate * parameter.grad
    objective.zero_grad()
    return gradients


class Slow:
    """Algorithm 1 on one sentence at a time: q and p by autograd, the negatives by their closed-form gradient."""

    def __init__(self, objective: AdCSE, batch: dict[str, Any]) -> None:
        self.o = objective
        self.q = torch.nn.ModuleList([copy.deepcopy(objective.model.transformers_model), copy.deepcopy(objective.head)])
        self.p = copy.deepcopy(self.q)
        self.n = objective.negatives.vectors.numpy().copy()
        self.v = np.zeros_like(self.n)
        self.steps = 0
        self.ids = [row[mask.bool()] for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]

    def vectors(self, pair: Any, head: Any = None) -> list[torch.Tensor]:
        bert, dense = pair[0], (pair[1] if head is None else head).dense
        hidden = [bert(input_ids=ids[None]).last_hidden_state[0, 0] for ids in self.ids]
        return [torch.tanh(dense.weight @ h + dense.bias) for h in hidden]

    def loss(self) -> tuple[torch.Tensor, np.ndarray]:
        """Eq. 5 and dL/dn, (M, d)."""
        z = self.vectors(self.q)
        keys = [k.detach() for k in self.vectors(self.p, self.q[1] if self.o.key_head == "shared" else None)]
        units = [torch.from_numpy(row / np.linalg.norm(row)) for row in self.n]
        slope = np.zeros_like(self.n)
        total = torch.zeros((), dtype=torch.float64)
        for i, query in enumerate(z):

            def term(other: torch.Tensor, query: torch.Tensor = query) -> torch.Tensor:
                return (torch.cosine_similarity(query, other, dim=0) / self.o.temperature).exp()

            others = [term(k) for j, k in enumerate(keys) if j != i] if self.o.in_batch_negatives else []
            hard = [term(u) for u in units]
            below = term(keys[i]) + sum(others) + sum(hard)
            total = total - torch.log(term(keys[i]) / below) / len(z)
            direction = (query / query.norm()).detach().numpy()
            for j, unit in enumerate(units):
                u, share = unit.numpy(), (hard[j] / below).item() / len(z) / self.o.temperature
                slope[j] += share * (direction - (direction @ u) * u) / np.linalg.norm(self.n[j])
        return total, slope

    def step(self, rate: float = 0.05) -> tuple[float, dict[str, torch.Tensor]]:
        loss, slope = self.loss()
        self.q.zero_grad()
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in self.q.named_parameters() if p.grad is not None}
        o = self.o.negatives
        lengths = np.linalg.norm(self.n, axis=1, keepdims=True)
        if o.step == "raw":
            self.v = o.momentum * self.v + slope - o.weight_decay * self.n
            self.n = self.n + o.learning_rate * self.v
        else:
            unit, direction = self.n / lengths, slope / np.linalg.norm(slope, axis=1, keepdims=True)
            self.v = o.momentum * self.v + direction - o.weight_decay * unit
            reached = unit + o.learning_rate * self.v
            self.n = lengths * reached / np.linalg.norm(reached, axis=1, keepdims=True)
        assert self.o.follower is not None
        m = self.o.follower.momentum
        if self.o.follower.warm_up:
            m = min(m, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        with torch.no_grad():
            for theirs, mine in zip(self.q.parameters(), self.p.parameters(), strict=True):
                if theirs.grad is not None:
                    theirs -= rate * theirs.grad
                mine.copy_(m * mine + (1 - m) * theirs)
        return loss.item(), gradients


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"in_batch_negatives": False},
        {"negatives_weight_decay": 0.1},
        {"key_head": "shared"},
        {"negatives_step": "normalised", "negatives_weight_decay": 0.1},
        {"momentum_warm_up": True},
    ],
    ids=str,
)
def test_three_steps_match_algorithm_1(exact_model: Any, batch: dict[str, Any], changes: dict[str, Any]) -> None:
    objective = build(exact_model, **changes)
    slow = Slow(objective, batch)
    for _ in range(3):
        terms = objective([dict(batch)])
        assert list(terms) == ["contrastive"]
        terms["contrastive"].backward()
        gradients = descend(objective)
        objective.follow()
        loss, expected = slow.step()
        assert terms["contrastive"].item() == pytest.approx(loss, rel=1e-9)
        assert len(gradients) == len(expected)
        for name, gradient in gradients.items():
            theirs = expected[name.replace("model.0.model", "0").replace("head", "1")]
            torch.testing.assert_close(gradient, theirs, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(objective.negatives.vectors.numpy(), slow.n, rtol=1e-9)
        np.testing.assert_allclose(objective.negatives.velocity.numpy(), slow.v, rtol=1e-7, atol=1e-12)
        assert objective.follower is not None
        for own, value in zip(objective.follower.followed_model.parameters(), slow.p[0].parameters(), strict=True):
            torch.testing.assert_close(own, value, rtol=1e-9, atol=1e-12)


def test_far_negatives_turn_by_the_normalised_step_alone(exact_model: Any, batch: dict[str, Any]) -> None:
    """The share of the loss of each is about e^(-1/τ): eq. 5 starts where a step along the gradient moves nothing."""
    for step, degrees in (("raw", 0.0), ("normalised", math.degrees(math.atan(3e-3)))):
        objective = AdCSE(exact_model, negatives_step=step, temperature=0.02, in_batch_negatives=False).float()
        objective.followed_by_trainer = True
        objective([dict(batch)])["contrastive"].backward()
        objective.follow()
        assert objective.diagnostics["negatives_turned"].item() == pytest.approx(degrees, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("preset", ["paper", "as_released"])
def test_the_presets_keep_the_papers_step_and_momentum(exact_model: Any, preset: str) -> None:
    objective, ours = AdCSE(exact_model, **AdCSE.PRESETS[preset]), AdCSE(exact_model)
    assert objective.follower is not None
    assert ours.follower is not None
    assert (objective.negatives.step, objective.follower.warm_up) == ("raw", False)
    assert (ours.negatives.step, ours.follower.warm_up) == ("normalised", True)


@pytest.mark.parametrize("views", ["dropout", "given"])
def test_without_both_additions_it_is_simcse_exactly(make_encoder_model: Any, sentences: list[str], views: str) -> None:
    model = make_encoder_model("bert").double().train()
    features = dict(model.preprocess(sentences))
    columns = [features] if views == "dropout" else [features, dict(model.preprocess(sentences[::-1]))]
    results = []
    for make in (lambda: SimCSE(model), lambda: AdCSE(model, negatives=0, untied=False)):
        torch.manual_seed(2)
        objective = make().double()
        objective.zero_grad()
        loss = objective([dict(column) for column in columns])["contrastive"]
        loss.backward()
        results.append((loss, {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}))
    (ours, our_gradients), (theirs, their_gradients) = results
    assert torch.equal(ours, theirs)
    assert our_gradients.keys() == their_gradients.keys()
    for name, gradient in our_gradients.items():
        torch.testing.assert_close(gradient, their_gradients[name], rtol=1e-12, atol=1e-14)


def test_before_the_first_step_the_keys_are_those_of_simcse_but_for_their_gradient(
    exact_model: Any, batch: dict[str, Any]
) -> None:
    simcse, objective = SimCSE(exact_model).double(), build(exact_model, negatives=0, temperature=0.05)
    objective.head.load_state_dict(simcse.head.state_dict())
    assert objective.follower is not None
    objective.follower.followed_head.load_state_dict(simcse.head.state_dict())
    ours, theirs = objective([dict(batch)])["contrastive"], simcse([dict(batch)])["contrastive"]
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    (mine,) = torch.autograd.grad(ours, objective.head.dense.weight)
    (stock,) = torch.autograd.grad(theirs, simcse.head.dense.weight)
    assert (mine - stock).abs().max() > 1e-3 * stock.abs().max(), "SimCSE's keys have a gradient, a momentum copy's not"


def test_the_encoder_descends_and_the_negatives_climb_on_one_loss(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model, negatives=16, in_batch_negatives=False)
    optimiser = torch.optim.SGD(objective.parameters(), lr=1e-3)
    before = objective([dict(batch)])["contrastive"]
    before.backward()
    start = objective.negatives.vectors.clone()
    optimiser.step()
    assert torch.equal(objective.negatives.vectors, start), "the optimiser does not own the negatives"
    between = objective([dict(batch)])["contrastive"].item()
    assert between < before.item()
    objective.negatives.ascend()
    assert objective([dict(batch)])["contrastive"].item() > between


def test_in_the_limit_negatives_meet_a_lone_query(exact_model: Any) -> None:
    """With the encoder held still each n_j climbs to the only z there is, and the loss to log(1 + M·e^((1−s)/τ))."""
    objective = build(exact_model, in_batch_negatives=False, temperature=1.0)
    generator = torch.Generator().manual_seed(0)
    z, key = (torch.randn(1, 16, generator=generator, dtype=torch.float64) for _ in range(2))
    for _ in range(2000):
        objective.compute_loss(z, key, objective.negatives()).backward()
        objective.negatives.ascend()
    similarity = torch.cosine_similarity(z, key).item()
    loss = objective.compute_loss(z, key, objective.negatives()).item()
    assert loss == pytest.approx(np.log1p(5 * np.exp(1 - similarity)), rel=1e-6)
    assert objective.diagnostics["negatives_similarity"].item() == pytest.approx(1, abs=1e-6)
    assert objective.diagnostics["positive_similarity"].item() == pytest.approx(similarity)


def test_without_in_batch_negatives_each_sentence_stands_alone(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model, in_batch_negatives=False)
    together = objective([dict(batch)])["contrastive"]
    alone = [
        objective([{key: value[i : i + 1] for key, value in batch.items() if isinstance(value, torch.Tensor)}])
        for i in range(8)
    ]
    torch.testing.assert_close(together, torch.stack([terms["contrastive"] for terms in alone]).mean())


def test_processes_share_keys_and_the_gradient_of_the_negatives(
    exact_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = build(exact_model)
    generator = torch.Generator().manual_seed(0)
    z, keys = (torch.randn(8, 16, generator=generator, dtype=torch.float64) for _ in range(2))
    together = objective.compute_loss(z, keys, objective.negatives())
    together.requires_grad_().backward()
    expected = objective.negatives._gradient
    objective.negatives._gradient = None
    halves = []
    for rank in (0, 1):
        monkeypatch.setattr(adcse, "gather_keys", lambda _mine, rank=rank: (keys, 4 * rank))
        rows = slice(4 * rank, 4 * rank + 4)
        halves.append(objective.compute_loss(z[rows], keys[rows], objective.negatives()))
        (halves[-1] / 2).backward()
    torch.testing.assert_close(together, sum(halves) / 2)
    torch.testing.assert_close(objective.negatives._gradient, expected)


def test_nothing_reaches_the_second_encoder_or_the_negatives_as_parameters(
    exact_model: Any, batch: dict[str, Any]
) -> None:
    objective = build(exact_model)
    objective([dict(batch)])["contrastive"].backward()
    assert objective.follower is not None
    assert all(p.grad is None and not p.requires_grad for p in objective.follower.parameters())
    owned = [name for name, p in objective.named_parameters() if p.requires_grad and not name.startswith("model.")]
    assert owned == ["head.dense.weight", "head.dense.bias"]


def test_a_stock_trainer_moves_the_state_too(exact_model: Any, batch: dict[str, Any]) -> None:
    """It does not call follow(): the next forward pass does, to the same effect."""
    start = copy.deepcopy(exact_model.state_dict())
    losses: dict[bool, list[float]] = {True: [], False: []}
    for followed, found in losses.items():
        exact_model.load_state_dict(start)
        objective = build(exact_model, momentum_warm_up=True)  # the number of steps counts
        objective.followed_by_trainer = followed
        for _ in range(3):
            loss = objective([dict(batch)])["contrastive"]
            loss.backward()
            descend(objective)
            if followed:
                objective.follow()
            found.append(loss.item())
    assert losses[True] == losses[False]
    assert len(set(losses[True])) == 3


def test_evaluation_moves_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    objective.followed_by_trainer = False
    objective([dict(batch)])["contrastive"].backward()
    descend(objective)
    objective.eval()
    state = {name: value.clone() for name, value in objective.own_state().items()}
    objective([dict(batch)])
    assert all(torch.equal(value, state[name]) for name, value in objective.own_state().items())
    objective.train()
    objective([dict(batch)])
    assert not all(torch.equal(value, state[name]) for name, value in objective.own_state().items())


def test_gradients_accumulated_over_batches_make_one_step(exact_model: Any, batch: dict[str, Any]) -> None:
    one, two = build(exact_model, in_batch_negatives=False), build(exact_model, in_batch_negatives=False)
    tensors = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    one([dict(batch)])["contrastive"].backward()
    one.follow()
    for half in (slice(0, 4), slice(4, 8)):
        (two([{key: value[half] for key, value in tensors.items()}])["contrastive"] / 2).backward()
    two.follow()
    torch.testing.assert_close(one.negatives.vectors, two.negatives.vectors, rtol=1e-9, atol=1e-12)
    assert two.diagnostics["negatives_gradient_norm"].item() > 1e-5


def test_a_resumed_objective_goes_on_as_before(exact_model: Any, batch: dict[str, Any], tmp_path: Any) -> None:
    from safetensors.torch import load_file, save_file

    first, second = build(exact_model, **AdCSE.PRESETS["paper"]), build(exact_model, **AdCSE.PRESETS["paper"])
    for _ in range(2):
        first([dict(batch)])["contrastive"].backward()
        first.zero_grad()
        first.follow()
    state = first.own_state()
    assert {"negatives.vectors", "negatives.velocity", "head.dense.weight"} < state.keys()
    assert any(name.startswith("follower.followed_model.") for name in state)
    assert {"follower.followed_head.dense.weight", "follower.followed_head.dense.bias"} < state.keys()
    save_file({name: value.contiguous() for name, value in state.items()}, tmp_path / "state.safetensors")
    second.load_own_state(load_file(tmp_path / "state.safetensors"))
    for objective in (first, second):
        objective([dict(batch)])["contrastive"].backward()
        objective.follow()
    assert all(torch.equal(value, second.own_state()[name]) for name, value in first.own_state().items())


def test_permuting_the_batch_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    torch.testing.assert_close(objective([dict(batch)]), objective([reordered(batch)]), rtol=1e-9, atol=1e-12)


def test_wider_padding_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    torch.testing.assert_close(objective([dict(batch)]), objective([wider(batch)]), rtol=1e-9, atol=1e-12)


def test_every_backbone_trains(make_encoder_model: Any, backbone: str, sentences: list[str]) -> None:
    model = make_encoder_model(backbone).train()
    objective = AdCSE(model)
    optimiser = torch.optim.SGD([p for p in objective.parameters() if p.requires_grad], lr=0.1)
    start = objective.negatives.vectors.clone()
    for _ in range(2):
        optimiser.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = objective([dict(model.preprocess(sentences))])["contrastive"]
        loss.backward()
        optimiser.step()
        assert torch.isfinite(loss)
        assert loss.dtype == torch.float32
    assert objective.negatives.vectors.dtype == torch.float32
    assert not torch.equal(objective.negatives.vectors, start)


def test_given_positives_are_used(exact_model: Any, batch: dict[str, Any]) -> None:
    for untied in (True, False):
        objective = build(exact_model, untied=untied)
        others = {key: value.flip(0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        alone, paired = objective([dict(batch)]), objective([dict(batch), others])
        assert abs(alone["contrastive"].item() - paired["contrastive"].item()) > 1e-2
        # As many pairs of equal sentences, in another order: the mean loss of pairs (i, 7−i) is that of (7−i, i).
        again = objective([others, dict(batch)])
        torch.testing.assert_close(paired, again, rtol=1e-9, atol=1e-12)


def test_works_under_the_stock_trainer(make_encoder_model: Any, sentences: list[str], tmp_path: Any) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    model = make_encoder_model("bert")
    objective = AdCSE(model)
    copied = objective.follower.followed_model
    before = objective.negatives.vectors.clone()
    arguments = SentenceTransformerTrainingArguments(str(tmp_path), max_steps=3, use_cpu=True, report_to="none")
    data = Dataset.from_dict({"sentence": sentences})
    SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=objective).train()
    assert objective.follower.followed_model is copied
    assert not torch.equal(objective.negatives.vectors, before)
    mine, theirs = (each.transformers_model.embeddings.word_embeddings.weight for each in (copied, model))
    assert not torch.equal(mine, theirs)


class TestAsReleased:
    """The quirks that RELEASED behaviour consists of, each by itself."""

    @pytest.fixture
    def objective(self, exact_model: Any) -> AdCSE:
        objective = AdCSE(exact_model, **AdCSE.PRESETS["as_released"]).double()
        objective.followed_by_trainer = True
        return objective

    def test_the_keys_of_the_batch_are_negatives(self, objective: AdCSE) -> None:
        assert objective.in_batch_negatives

    def test_the_second_encoder_starts_random_and_forgets_that_slowly(self, objective: AdCSE) -> None:
        assert objective.follower is not None
        mine = objective.follower.followed_model.transformers_model.embeddings.word_embeddings.weight
        theirs = objective.model.transformers_model.embeddings.word_embeddings.weight
        distance = (mine - theirs).norm().item()
        assert distance > 0.5 * theirs.norm().item()
        for _ in range(10):
            objective.follow()
        assert (mine - theirs).norm().item() == pytest.approx(0.995**10 * distance)

    def test_the_keys_pass_through_the_present_head(self, objective: AdCSE, batch: dict[str, Any]) -> None:
        assert objective.follower is not None
        assert list(objective.follower.followed_head.parameters()) == []
        with torch.no_grad():
            objective.head.dense.weight.mul_(3.0)  # a step of the optimiser, which no momentum softens
            h = Encoder(objective.follower.followed_model).encode(batch)
            expected = torch.tanh(h @ objective.head.dense.weight.T + objective.head.dense.bias)
        keys = objective._keys(batch)
        assert not keys.requires_grad
        torch.testing.assert_close(keys, expected, rtol=1e-9, atol=1e-12)

    def test_real_tokens_are_of_the_second_segment_in_training_alone(
        self, objective: AdCSE, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[torch.Tensor] = []
        encode = Encoder.encode

        def watched(encoder: Encoder, features: dict[str, Any], **options: Any) -> torch.Tensor:
            seen.append(features.get("token_type_ids"))
            return encode(encoder, features, **options)

        monkeypatch.setattr(Encoder, "encode", watched)
        objective([dict(batch)])
        assert len(seen) == 2
        assert all(torch.equal(types, batch["attention_mask"]) for types in seen)
        seen.clear()
        objective.eval()
        objective([dict(batch)])
        assert all(types is None or not types.any() for types in seen)

    def test_the_token_types_change_the_vectors(self, objective: AdCSE, batch: dict[str, Any]) -> None:
        z: list[torch.Tensor] = []
        for training in (True, False):
            objective.train(training)
            with torch.no_grad():
                z.append(objective.encoder.encode(objective._typed(batch)))
        bert = objective.model.transformers_model
        with torch.no_grad():
            types = batch["attention_mask"]
            expected = bert(batch["input_ids"], attention_mask=types, token_type_ids=types).last_hidden_state[:, 0]
        torch.testing.assert_close(z[0], expected, rtol=1e-9, atol=1e-10)
        assert (z[0] - z[1]).abs().max() > 1e-3

    def test_the_negatives_decay(self, objective: AdCSE) -> None:
        before = objective.negatives.vectors.clone()
        objective.negatives._gradient = torch.zeros_like(before)
        objective.follow()
        torch.testing.assert_close(objective.negatives.vectors, before * (1 - 3e-3 * 1e-4), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"negatives": 0, "in_batch_negatives": False}, "no negatives at all"),
        ({"temperature": 0.0}, "temperature"),
        ({"momentum": 1.5}, "momentum must lie"),
        ({"negatives": -1}, "number of negatives"),
        ({"negatives_momentum": 1.0}, "momentum of the negatives"),
        ({"untied": False, "key_head": "shared"}, "no second encoder"),
        ({"untied": False, "key_start": "random"}, "no second encoder"),
    ],
)
def test_wrong_options_are_refused(exact_model: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdCSE(exact_model, **changes)


def test_token_types_need_a_backbone_that_has_two(make_encoder_model: Any) -> None:
    with pytest.raises(ValueError, match="two token types"):
        AdCSE(make_encoder_model("distilbert"), mask_as_token_types=True)


def test_the_paper_has_no_in_batch_negatives_and_the_release_has(exact_model: Any) -> None:
    assert not AdCSE(exact_model, **AdCSE.PRESETS["paper"]).in_batch_negatives
    assert AdCSE(exact_model).in_batch_negatives
