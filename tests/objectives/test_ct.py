"""Contrastive Tension against a slow rendering of its loss, the stock one, and its invariants."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from gradient_checks import gradients, wider

from holdfast.errors import UserError
from holdfast.objectives import ct
from holdfast.objectives.ct import ContrastiveTension

SHIFTS = (2, 5, 7)


def build(model: Any, **changes: Any) -> ContrastiveTension:
    """Two encoders that have grown apart, with outputs small enough that no pair is certain."""
    torch.manual_seed(0)
    objective = ContrastiveTension(model, **{"negatives": 3, **changes}).double()
    objective.followed_by_trainer = True
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in objective.second_encoder.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        for each in (objective.model, objective.second_encoder):
            norm = each.transformers_model.encoder.layer[-1].output.LayerNorm
            norm.weight.mul_(0.3)
            norm.bias.mul_(0.3)
    return objective


def slow(objective: ContrastiveTension, batch: dict[str, Any], shifts: tuple[int, ...]) -> torch.Tensor:
    """Each sentence alone, each pair by itself."""

    def vectors(model: Any) -> list[torch.Tensor]:
        ids = [row[mask.bool()] for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
        return [model.transformers_model(input_ids=row[None]).last_hidden_state[0, 0] for row in ids]

    first, second = vectors(objective.model), vectors(objective.second_encoder)
    total, pairs = torch.zeros((), dtype=torch.float64), 0
    for i, query in enumerate(first):
        total = total - torch.sigmoid(query @ second[i]).log()
        for shift in shifts:
            total = total - (1 - torch.sigmoid(query @ second[(i + shift) % len(second)])).log()
        pairs += 1 + len(shifts)
    return total / pairs


def test_loss_and_gradients_of_both_encoders_match_the_slow_reference(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = build(exact_model)
    monkeypatch.setattr(objective, "draw_shifts", lambda rows: torch.tensor(SHIFTS))
    terms = objective([dict(batch)])
    assert list(terms) == ["tension"]
    ours = gradients(terms["tension"], objective)
    reference = slow(objective, batch, SHIFTS)
    assert terms["tension"].item() == pytest.approx(reference.item(), rel=1e-9)
    theirs = gradients(reference, objective)
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-6, atol=1e-10)
    for part in ("model.", "second_encoder."):
        assert max(gradient.abs().max() for name, gradient in theirs.items() if name.startswith(part)) > 1e-3


def test_it_is_the_stock_loss_of_the_same_pairs(exact_model: Any, batch: dict[str, Any]) -> None:
    from sentence_transformers.sentence_transformer.losses import ContrastiveTensionLoss

    objective = build(exact_model)
    stock = ContrastiveTensionLoss(objective.second_encoder)
    stock.model1 = exact_model
    tensors = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
    firsts = {key: torch.cat([value] * 4) for key, value in tensors.items()}
    seconds = {key: torch.cat([value.roll(-c, 0) for c in (0, *SHIFTS)]) for key, value in tensors.items()}
    labels = torch.cat([torch.ones(8), torch.zeros(24)])
    theirs = stock([firsts, seconds], labels)
    with torch.no_grad():
        first, second = (each(dict(tensors))["sentence_embedding"] for each in (exact_model, objective.second_encoder))
    ours = objective.compute_loss(first, second, torch.tensor(SHIFTS))
    assert 32 * ours.item() == pytest.approx(theirs.item(), rel=1e-9)


def test_special_cases(exact_model: Any) -> None:
    objective = ContrastiveTension(exact_model, negatives=3)
    shifts = torch.tensor(SHIFTS)
    zero, one = torch.zeros(8, 4, dtype=torch.float64), torch.eye(8, dtype=torch.float64)
    assert objective.compute_loss(zero, zero, shifts).item() == pytest.approx(math.log(2)), "no opinion"
    assert objective.compute_loss(30 * one, 30 * one, shifts).item() == pytest.approx(0.75 * math.log(2))
    assert objective.diagnostics["positive_product"].item() == pytest.approx(900)
    assert objective.diagnostics["negative_product"].item() == 0
    # The length of vectors counts, and nothing overflows: every pair at 10⁴, right for the positive quarter alone.
    same = 100 * torch.ones(8, 1, dtype=torch.float64)
    assert objective.compute_loss(same, same, shifts).item() == pytest.approx(0.75e4)


def test_processes_shift_the_joined_batch(exact_model: Any) -> None:
    objective = ContrastiveTension(exact_model, negatives=3)
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(8, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    shifts = torch.tensor(SHIFTS)
    together = objective.compute_loss(first, second, shifts)
    halves = [objective.compute_loss(first[start : start + 4], second, shifts, start) for start in (0, 4)]
    torch.testing.assert_close(sum(halves) / 2, together)
    assert halves[0] != halves[1]


def test_keys_of_all_processes_are_joined(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = build(exact_model, negatives=9)
    seen: list[Any] = []
    monkeypatch.setattr(ct, "gather_keys", lambda mine: (torch.cat([mine * 0, mine]), 8))
    monkeypatch.setattr(objective, "compute_loss", lambda *arguments: seen.append(arguments) or arguments[0].sum())
    objective([dict(batch)])
    ((first, second, shifts, offset, _),) = seen
    assert first.shape == (8, 16)
    assert second.shape == (16, 16)
    assert offset == 8
    assert len(shifts) == 9, "more than a single process could draw"


class TestShifts:
    def test_they_are_different_and_never_pair_a_sentence_with_itself(self, exact_model: Any) -> None:
        objective = ContrastiveTension(exact_model, negatives=5)
        seen = set()
        for _ in range(200):
            shifts = objective.draw_shifts(8)
            assert len(set(shifts.tolist())) == 5
            assert set(shifts.tolist()) <= set(range(1, 8))
            seen |= {tuple(shifts.tolist())}
            objective.follow()
        assert len(seen) > 150
        assert {shift for shifts in seen for shift in shifts} == set(range(1, 8))

    def test_they_depend_on_seed_and_step_alone(self, exact_model: Any, batch: dict[str, Any]) -> None:
        torch.manual_seed(3)
        one = ContrastiveTension(exact_model)
        torch.manual_seed(3)
        two = ContrastiveTension(exact_model)
        torch.manual_seed(4)
        three = ContrastiveTension(exact_model)
        torch.randn(5)  # the processes' random streams are not alike
        assert torch.equal(one.draw_shifts(99), two.draw_shifts(99))
        assert not torch.equal(one.draw_shifts(99), three.draw_shifts(99))
        three.load_own_state(one.own_state())
        one.follow()
        assert not torch.equal(one.draw_shifts(99), two.draw_shifts(99))
        two.follow()
        three.follow()
        assert torch.equal(one.draw_shifts(99), two.draw_shifts(99))
        assert torch.equal(one.draw_shifts(99), three.draw_shifts(99)), "a resumed run goes on as before"

    def test_drawing_leaves_the_random_state_alone(self, exact_model: Any) -> None:
        objective = ContrastiveTension(exact_model)
        state = torch.get_rng_state()
        objective.draw_shifts(16)
        assert torch.equal(torch.get_rng_state(), state)

    def test_a_batch_whose_pairs_would_all_be_drawn_is_refused(self, exact_model: Any) -> None:
        objective = ContrastiveTension(exact_model, negatives=7)
        assert len(objective.draw_shifts(9)) == 7
        with pytest.raises(UserError, match="batch of 9 sentences or more, got 8"):
            objective.draw_shifts(8)

    def test_a_stock_trainer_moves_on_too_and_evaluation_does_not(
        self, exact_model: Any, batch: dict[str, Any]
    ) -> None:
        objective = ContrastiveTension(exact_model, negatives=3).double()
        objective([dict(batch)])
        objective([dict(batch)])
        assert objective.draws[1] == 1
        objective.eval()([dict(batch)])
        objective.train()
        objective.followed_by_trainer = True
        objective([dict(batch)])
        assert objective.draws[1] == 1


def test_the_encoders_start_alike_and_are_both_trained(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = ContrastiveTension(exact_model, negatives=3).double()
    pairs = list(zip(exact_model.parameters(), objective.second_encoder.parameters(), strict=True))
    assert all(torch.equal(one, two) and one is not two for one, two in pairs)
    assert len(objective.own_parameters()) == len(pairs)
    optimiser = torch.optim.AdamW(objective.parameters(), lr=1e-2)
    start = [two.detach().clone() for _, two in pairs]
    losses = []
    for _ in range(5):
        loss = objective([dict(batch)])["tension"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    trained = [i for i, (one, _) in enumerate(pairs) if one.grad is not None]
    assert len(trained) > 0.8 * len(pairs)
    assert all(not torch.equal(pairs[i][1], start[i]) for i in trained if start[i].abs().sum() > 0)
    apart = torch.cat([(one - two).detach().abs().flatten() for one, two in pairs]).max()
    assert apart > 1e-3, "the negatives of either side differ, and so do the encoders, without any dropout"


@pytest.mark.parametrize("dropout", [False, True])
def test_dropout_is_off_unless_asked_for(make_encoder_model: Any, sentences: list[str], dropout: bool) -> None:
    model = make_encoder_model("bert").train()
    objective = ContrastiveTension(model, negatives=3, dropout=dropout)
    objective.followed_by_trainer = True
    modes = [module.training for module in objective.modules()]
    features = dict(model.preprocess(sentences))
    found = [objective([dict(features)])["tension"].item() for _ in range(2)]
    assert (found[0] == found[1]) is not dropout
    assert [module.training for module in objective.modules()] == modes


def test_the_second_encoder_has_dropout_although_the_model_was_loaded_in_evaluation_mode(
    make_encoder_model: Any, sentences: list[str]
) -> None:
    model = make_encoder_model("bert")
    objective = ContrastiveTension(model, negatives=3, dropout=True)
    objective.followed_by_trainer = True
    features = dict(model.preprocess(sentences))
    assert objective([dict(features)])["tension"].item() != objective([dict(features)])["tension"].item()


def test_a_cyclic_permutation_of_the_batch_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    rolled = {key: value.roll(3, 0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    torch.testing.assert_close(objective([dict(batch)]), objective([rolled]), rtol=1e-9, atol=1e-12)


def test_wider_padding_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = build(exact_model)
    torch.testing.assert_close(objective([dict(batch)]), objective([wider(batch)]), rtol=1e-9, atol=1e-12)


def test_every_backbone_trains_in_full_precision_of_the_loss(
    make_encoder_model: Any, backbone: str, sentences: list[str]
) -> None:
    model = make_encoder_model(backbone).train()
    objective = ContrastiveTension(model, negatives=3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = objective([dict(model.preprocess(sentences))])["tension"]
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)
    for each in (model, objective.second_encoder):
        assert max(p.grad.abs().max() for p in each.parameters() if p.grad is not None) > 0


def test_own_state_is_the_second_encoder_and_the_draws(exact_model: Any, make_encoder_model: Any) -> None:
    objective = build(exact_model)
    state = objective.own_state()
    assert all(name == "draws" or name.startswith("second_encoder.") for name in state)
    other = ContrastiveTension(make_encoder_model("bert", seed=5)).double()
    before = copy.deepcopy(other.model.state_dict())
    other.load_own_state(state)
    assert all(torch.equal(value, objective.own_state()[name]) for name, value in other.own_state().items())
    assert all(torch.equal(value, before[name]) for name, value in other.model.state_dict().items())


def test_works_under_the_stock_trainer(make_encoder_model: Any, sentences: list[str], tmp_path: Any) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    model = make_encoder_model("bert")
    objective = ContrastiveTension(model, negatives=3)
    second = objective.second_encoder
    starts = [copy.deepcopy(each.state_dict()) for each in (model, second)]
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path), max_steps=2, learning_rate=1e-3, use_cpu=True, report_to="none"
    )
    data = Dataset.from_dict({"sentence": sentences})
    SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=objective).train()
    assert objective.second_encoder is second
    key = "0.model.encoder.layer.0.output.dense.weight"
    for each, start in zip((model, second), starts, strict=True):
        assert not torch.equal(each.state_dict()[key], start[key])


def test_wrong_use_is_refused(exact_model: Any, batch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="negatives must be 1 or more"):
        ContrastiveTension(exact_model, negatives=0)
    with pytest.raises(ValueError, match="takes one column"):
        ContrastiveTension(exact_model)([dict(batch), dict(batch)])
