"""ConSERT against a slow rendering of its augmentations and loss, its invariants, and its views on every backbone."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from gradient_checks import another_order, assert_same_gradients, gradients, reordered, wider

from holdfast.adversary.balls import sentence_norm
from holdfast.baselines.pooling import with_pooling
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives.consert import ConSERT
from warm import WarmPython

VIEWS = ("none", "shuffle", "token-cutoff", "feature-cutoff", "dropout", "adversarial")
RATES: dict[str, Any] = {"token_cutoff": 0.3, "feature_cutoff": 0.25, "dropout": 0.4, "temperature": 0.2}


def fixed_draws(view: int, shape: tuple[int, ...]) -> torch.Tensor:
    """The same numbers for a sentence, a position and a feature, whatever the batch's width."""
    generator = torch.Generator().manual_seed(10 * len(shape) + view)
    numbers = torch.rand(8, *((64, 16) if len(shape) == 3 else (64,)), generator=generator, dtype=torch.float64)
    return numbers[tuple(slice(n) for n in shape)]


def fix_the_draws(objective: ConSERT) -> None:
    objective.draw = lambda view, shape, device: fixed_draws(view, shape)  # type: ignore[method-assign]


class Slow:
    """The views of one sentence at a time, around BERT's own embedding module and layers."""

    def __init__(self, objective: ConSERT, batch: dict[str, Any]) -> None:
        self.o = objective
        self.bert = objective.model.transformers_model
        self.ids = [row[mask.bool()] for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]

    def embed(self, row: int, view: int) -> torch.Tensor:
        """(L, d), what enters the first layer in a view that is not adversarial."""
        ids, kind = self.ids[row].clone(), self.o.views[view]
        length = len(ids)
        numbers = fixed_draws(view, (8, 64))[row].tolist()
        if kind == "shuffle":
            assert (ids[0], ids[-1]) == (2, 3)
            inner = list(range(1, length - 1))
            for place, taken in zip(inner, sorted(inner, key=lambda i: numbers[i]), strict=True):
                ids[place] = self.ids[row][taken]
        x = self.bert.embeddings(ids[None])[0]
        if kind == "token-cutoff":
            for i in sorted(range(length), key=lambda i: numbers[i])[: int(self.o.token_cutoff * length)]:
                x = torch.cat([x[:i], torch.zeros_like(x[:1]), x[i + 1 :]])
        if kind == "feature-cutoff":
            cut = sorted(range(16), key=lambda j: numbers[j])[: int(self.o.feature_cutoff * 16)]
            x = torch.stack([torch.zeros_like(x[:, j]) if j in cut else x[:, j] for j in range(16)], dim=1)
        if kind == "dropout":
            x = torch.where(fixed_draws(view, (8, 64, 16))[row, :length] < self.o.dropout, 0.0, x)
        return x

    def project(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.bert.encoder(x[None]).last_hidden_state[0, 0]
        dense = self.o.head.dense
        return hidden if dense is None else torch.tanh(dense.weight @ hidden + dense.bias)

    def adversarial(self, other: list[torch.Tensor]) -> list[torch.Tensor]:
        """(L, d) of each sentence: one step from its embeddings against the other view's vectors."""
        x = [self.embed(i, 0) for i in range(len(self.ids))]
        leaves = [each.detach().clone().requires_grad_() for each in x]
        loss = slow_nt_xent([self.project(leaf) for leaf in leaves], [z.detach() for z in other], self.o.temperature)
        slopes = torch.autograd.grad(loss, leaves)
        if self.o.attack_norm == "inf":
            return [each + self.o.radius * g.sign() for each, g in zip(x, slopes, strict=True)]
        return [each + self.o.radius * g / g.square().mean().sqrt() for each, g in zip(x, slopes, strict=True)]

    def loss(self) -> torch.Tensor:
        rows = range(len(self.ids))
        second = [self.project(self.embed(i, 1)) for i in rows]
        adversarial = self.o.views[0] == "adversarial"
        first = self.adversarial(second) if adversarial else [self.embed(i, 0) for i in rows]
        return slow_nt_xent([self.project(x) for x in first], second, self.o.temperature)


def slow_nt_xent(first: list[torch.Tensor], second: list[torch.Tensor], temperature: float) -> torch.Tensor:
    """ConSERT, eq. 1: each of the 2B vectors against all others, one similarity at a time."""
    vectors = [*first, *second]
    count = len(vectors)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(count):
        sims = [(torch.cosine_similarity(vectors[i], other, dim=0) / temperature).exp() for other in vectors]
        below = sum(sim for k, sim in enumerate(sims) if k != i)
        total = total - torch.log(sims[(i + count // 2) % count] / below) / count
    return total


CASES: list[dict[str, Any]] = [
    {},
    {"first_view": "none", "second_view": "shuffle", "head": "tanh"},
    {"first_view": "token-cutoff", "second_view": "feature-cutoff"},
    {"first_view": "dropout", "second_view": "token-cutoff"},
    {"first_view": "dropout", "second_view": "none", "head": "tanh"},
    {"first_view": "shuffle", "second_view": "shuffle"},
    {"first_view": "adversarial", "second_view": "none"},
    {"first_view": "adversarial", "second_view": "feature-cutoff", "attack_norm": "inf", "head": "tanh"},
]


@pytest.mark.parametrize("changes", CASES)
def test_loss_and_gradients_match_the_slow_reference(
    exact_model: Any, batch: dict[str, Any], changes: dict[str, Any]
) -> None:
    objective = ConSERT(exact_model, **{**RATES, **changes}).double()
    fix_the_draws(objective)
    terms = objective([dict(batch)])
    assert list(terms) == ["contrastive"]
    ours = gradients(terms["contrastive"], objective)
    expected = Slow(objective, batch).loss()
    assert terms["contrastive"].item() == pytest.approx(expected.item(), rel=1e-8)
    assert_same_gradients(ours, gradients(expected, objective))


def test_an_adversarial_second_view_is_the_same_as_a_first(exact_model: Any, batch: dict[str, Any]) -> None:
    losses = []
    for first, second in (("adversarial", "none"), ("none", "adversarial")):
        objective = ConSERT(exact_model, first_view=first, second_view=second, **RATES).double()  # type: ignore[arg-type]
        losses.append(objective([dict(batch)])["contrastive"].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_nt_xent_matches_numpy_and_known_values(exact_model: Any) -> None:
    objective = ConSERT(exact_model, temperature=0.5)
    z, other = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = torch.cat([z, other]).numpy()
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    sims = np.exp(unit @ unit.T / 0.5)
    np.fill_diagonal(sims, 0.0)
    expected = np.mean([-np.log(sims[i, (i + 5) % 10] / sims[i].sum()) for i in range(10)])
    assert objective.compute_loss(z, other).item() == pytest.approx(expected, rel=1e-10)
    same = torch.ones(5, 16, dtype=torch.float64)
    assert objective.compute_loss(same, same).item() == pytest.approx(math.log(9))
    apart = torch.eye(16, dtype=torch.float64)[:5]  # cosine 1 with the positive, 0 with the 8 negatives
    assert objective.compute_loss(apart, apart).item() == pytest.approx(math.log(1 + 8 * math.exp(-2)))


def test_two_plain_views_under_dropout_are_a_two_sided_simcse(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    objective = ConSERT(model, first_view="none", second_view="none", encoder_dropout=True, temperature=0.1)
    features = dict(model.preprocess(sentences))
    torch.manual_seed(0)
    loss = objective([features])["contrastive"]
    torch.manual_seed(0)
    first, second = Encoder(model).encode(features, views=2).double().chunk(2)
    assert loss.item() == pytest.approx(slow_nt_xent(list(first), list(second), 0.1).item(), rel=1e-5)
    assert (first - second).abs().max() > 1e-3, "the views differ by dropout"


def test_the_encoders_dropout_is_off_unless_asked_for(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    model.transformers_model.encoder.layer[1].eval()  # a module in another mode than the rest must stay so
    modes = [module.training for module in model.modules()]
    features = dict(model.preprocess(sentences))
    for dropout in (False, True):
        objective = ConSERT(model, first_view="none", encoder_dropout=dropout)
        fix_the_draws(objective)
        losses = {objective([features])["contrastive"].item() for _ in range(3)}
        assert len(losses) == (3 if dropout else 1)
        assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize("kind", VIEWS[1:-1])
def test_each_view_moves_the_vectors_and_draws_its_own_numbers(
    make_encoder_model: Any, sentences: list[str], kind: Any
) -> None:
    model = make_encoder_model("bert")
    features = dict(model.preprocess(sentences))
    objective = ConSERT(model, first_view=kind, second_view=kind, **RATES)
    found: list[torch.Tensor] = []
    objective.compute_loss = lambda *z: found.extend(z) or z[0].sum()  # type: ignore[method-assign]
    torch.manual_seed(0)
    objective([features])
    clean = Encoder(model).encode(features)
    assert ((found[0] - clean).abs().amax(dim=1) > 1e-4).sum() >= 6  # two words may be shuffled into their old order
    assert (found[0] - found[1]).abs().max() > 1e-2, "the two views must draw numbers of their own"


def test_draws_are_uniform(exact_model: Any) -> None:
    torch.manual_seed(0)
    numbers = ConSERT(exact_model).draw(0, (100, 100), torch.device("cpu"))
    assert numbers.shape == (100, 100)
    assert 0.0 <= numbers.min() < 0.001 < 0.999 < numbers.max() < 1.0
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("norm", ["2", "inf"])
def test_the_attack_raises_the_loss_and_leaves_no_trace(exact_model: Any, batch: dict[str, Any], norm: Any) -> None:
    objective = ConSERT(
        exact_model, second_view="adversarial", first_view="none", attack_norm=norm, radius=0.02
    ).double()
    encoder = Encoder(exact_model)
    with torch.no_grad():
        x = encoder.backbone.embed(batch)
        z_other = objective.head(encoder.encode(batch))
    state, modes = torch.get_rng_state(), [module.training for module in objective.modules()]
    delta, unperturbed = objective.attack(encoder, batch, x, z_other)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in objective.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in objective.parameters())
    mask = batch["attention_mask"]
    torch.testing.assert_close(sentence_norm(delta, mask, norm), torch.full((8,), 0.02, dtype=torch.float64))
    assert (delta[mask == 0] == 0).all()

    def loss(at: torch.Tensor) -> float:
        with encoder.perturbed(embeddings=x, delta=at), torch.no_grad():
            return objective.compute_loss(objective.head(encoder.encode(batch)), z_other).item()

    assert unperturbed.item() == pytest.approx(loss(torch.zeros_like(delta)))
    assert loss(delta) > unperturbed + 1e-3
    assert loss(delta) > loss(-delta), "the direction matters, not only the size"
    total = objective([dict(batch)])["contrastive"].item()
    assert objective.diagnostics["attack_loss_rise"].item() == pytest.approx(total - unperturbed.item())


def test_dropout_is_off_in_the_attack(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    objective = ConSERT(model, first_view="adversarial", encoder_dropout=True)
    features, encoder = dict(model.preprocess(sentences)), Encoder(model)
    with torch.no_grad():
        x, z_other = encoder.backbone.embed(features), objective.head(encoder.encode(features))
    state = torch.get_rng_state()
    first, second = (objective.attack(encoder, features, x, z_other) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training


@pytest.mark.parametrize("first", VIEWS)
def test_permuting_the_batch_and_wider_padding_change_nothing(
    exact_model: Any, batch: dict[str, Any], first: Any
) -> None:
    second = "token-cutoff" if first != "token-cutoff" else "dropout"
    objective = ConSERT(exact_model, first_view=first, second_view=second, **RATES).double()  # type: ignore[arg-type]
    fix_the_draws(objective)
    expected = objective([dict(batch)])
    torch.testing.assert_close(objective([wider(batch)]), expected, rtol=1e-7, atol=1e-9)
    order = another_order()
    objective.draw = lambda view, shape, device: fixed_draws(view, shape)[order]  # type: ignore[method-assign]
    torch.testing.assert_close(objective([reordered(batch)]), expected, rtol=1e-7, atol=1e-9)


def test_it_trains_on_every_backbone(backbone: str, make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model(backbone).train()
    features = dict(model.preprocess(sentences))
    for first in VIEWS:
        objective = ConSERT(model, first_view=first, second_view="shuffle", temperature=0.5)  # type: ignore[arg-type]
        torch.manual_seed(0)
        grads = gradients(objective([features])["contrastive"], objective)
        assert all(torch.isfinite(grad).all() for grad in grads.values())
        assert max(grad.abs().max() for grad in grads.values()) > 1e-5


def test_an_unknown_word_is_shuffled_and_the_frame_is_not(make_encoder_model: Any) -> None:
    model = make_encoder_model("bert")
    objective = ConSERT(model)
    batch = dict(model.preprocess(["the zebra cat runs in the park", "a dog"]))
    assert 1 in batch["input_ids"][0].tolist(), "zebra is [UNK]"
    objective.draw = lambda view, shape, device: torch.arange(shape[1], 0, -1).expand(shape) / 100.0  # type: ignore[method-assign]
    shuffled, keep = objective._augmented(Encoder(model), batch, 1)
    for row, mask in enumerate(batch["attention_mask"]):
        length = int(mask.sum())
        ids = batch["input_ids"][row].tolist()
        expected = [ids[0], *ids[length - 2 : 0 : -1], *ids[length - 1 :]]  # the inner tokens back to front
        assert shuffled["input_ids"][row].tolist() == expected
    assert keep is None
    assert shuffled["attention_mask"] is batch["attention_mask"]


def test_wrong_options_are_refused(exact_model: Any, batch: dict[str, Any], masked_lm: Path) -> None:
    with pytest.raises(ValueError, match="second_view must be one of none, shuffle"):
        ConSERT(exact_model, second_view="back-translation")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="attack_norm must be one of 2, inf"):
        ConSERT(exact_model, attack_norm="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at most one view is adversarial"):
        ConSERT(exact_model, first_view="adversarial", second_view="adversarial")
    for wrong in ({"token_cutoff": 1.0}, {"feature_cutoff": -0.1}, {"dropout": 2.0}):
        with pytest.raises(ValueError, match="must lie in"):
            ConSERT(exact_model, **wrong)  # type: ignore[arg-type]
    for wrong in ({"radius": 0.0}, {"temperature": -1.0}):
        with pytest.raises(ValueError, match="must be positive"):
            ConSERT(exact_model, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes one column"):
        ConSERT(exact_model)([dict(batch), dict(batch)])
    with pytest.raises(UserError, match="break the template of a prompt"):
        ConSERT(load_sentence_transformer(str(masked_lm), pooling="prompt", device="cpu"))


def half_of_the_batch(folder: str) -> None:
    """What one of two processes does: its sentences, and the mean of the gradients over the processes."""
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    torch.set_num_threads(1)
    saved = torch.load(f"{folder}/case.pt", weights_only=False)
    mine = slice(rank * 8 // world, (rank + 1) * 8 // world)
    batch = saved["batch"]
    own = {key: value[mine] if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    results = []
    for objective in saved["objectives"]:
        objective.draw = lambda view, shape, device: fixed_draws(view, (8, *shape[1:]))[mine]
        found = gradients(objective([own])["contrastive"], objective)
        for grad in found.values():
            dist.all_reduce(grad)
            grad /= world
        results.append(found)
    if rank == 0:
        torch.save(results, f"{folder}/gradients.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_equal_one(exact_model: Any, batch: dict[str, Any], tmp_path: Path, warm: WarmPython) -> None:
    views: list[tuple[Any, Any]] = [("feature-cutoff", "shuffle"), ("adversarial", "token-cutoff")]
    objectives = [ConSERT(exact_model, first_view=a, second_view=b, **RATES).double() for a, b in views]
    for world in (1, 2):
        folder = tmp_path / str(world)
        folder.mkdir()
        torch.save({"objectives": objectives, "batch": batch}, folder / "case.pt")
        done = warm.run(Path(__file__), str(folder), processes=world, function="half_of_the_batch")
        assert done.returncode == 0, done.stderr
    one, two = (torch.load(tmp_path / str(world) / "gradients.pt") for world in (1, 2))
    for single, double in zip(one, two, strict=True):
        assert_same_gradients(double, single)


def test_it_trains_a_model_pooled_over_its_last_two_layers(make_encoder_model: Any, sentences: list[str]) -> None:
    """The paper's pooling; the vectors of the training are those of the model itself."""
    model = with_pooling(make_encoder_model("bert", layers=3), "last-two").train()
    objective = ConSERT(model)
    objective([dict(model.preprocess(sentences))])["contrastive"].backward()
    for layer in model.transformers_model.encoder.layer:
        assert layer.output.dense.weight.grad.abs().max() > 1e-6
    model.eval()
    with torch.no_grad():
        expected = model(dict(model.preprocess(sentences)))["sentence_embedding"]
        found = Encoder(model).encode(dict(model.preprocess(sentences)))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
