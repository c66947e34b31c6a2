"""DiffCSE against a slow rendering of its replaced tokens and its loss, its invariants, and its generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_checks import assert_same_gradients, gradients, reordered, wider
from sentence_transformers.sentence_transformer.modules import Dense
from torch import nn

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.token_replacement import chosen_and_masked, predicted
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives import DiffCSE, SimCSE

NUMBERS = torch.rand(3, 64, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
"""The draws of a position, equal in all rows."""


def fix_the_draws(objective: DiffCSE) -> None:
    objective.draw = lambda number, shape, device: NUMBERS[number, : shape[1]].expand(shape)  # type: ignore[method-assign]


@pytest.fixture
def folder(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path / "tiny")


@pytest.fixture
def made(folder: Path) -> Callable[..., DiffCSE]:
    """``made(dropout=0.0, **options)``: an objective in fp64 whose discriminator and detector have moved a little."""

    def make(dropout: float = 0.0, **options: Any) -> DiffCSE:
        torch.manual_seed(0)
        model = load_sentence_transformer(str(folder), device="cpu").double().train()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        objective = DiffCSE(model, **{"temperature": 0.2, "weight": 0.5, "masking": 0.4, "head": "tanh", **options})
        objective = objective.double().train()
        if objective.generator is not None:
            assert objective.discriminator is not None
            objective.generator.model.double()
            for parameter in objective.discriminator.parameters():
                parameter.data += 0.1 * torch.randn(parameter.shape, dtype=parameter.dtype)
        fix_the_draws(objective)
        return objective

    return make


def slow_loss(o: DiffCSE, batch: dict[str, Any]) -> torch.Tensor:
    """L_RTD: one sentence and one token at a time; without dropout both views are equal."""
    assert o.generator is not None
    assert o.discriminator is not None
    assert o.detector is not None
    tokenizer: Any = o.generator.tokenizer
    bert: Any = o.discriminator.transformers_model
    student: Any = o.model.transformers_model
    dense = o.head.dense
    assert dense is not None
    total, count = torch.zeros((), dtype=torch.float64), 0
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        row = ids[mask.bool()].tolist()
        hidden, chosen = list(row), []
        for i, token in enumerate(row):
            if token in tokenizer.all_special_ids or NUMBERS[0, i] >= o.masking:
                continue
            chosen.append(i)
            if NUMBERS[1, i] < 0.8:
                hidden[i] = tokenizer.mask_token_id
            elif NUMBERS[1, i] < 0.9:
                hidden[i] = int(NUMBERS[2, i] * len(tokenizer))
        with torch.no_grad():
            logits = o.generator.model(input_ids=torch.tensor([hidden])).logits[0]
        edited = [int(logits[i].argmax()) if i in chosen else token for i, token in enumerate(row)]
        z = torch.tanh(dense(student(ids[mask.bool()][None]).last_hidden_state[0, 0]))
        embedded = bert.embeddings(torch.tensor([edited]))[0]
        states = bert.encoder(torch.cat([z[None], embedded[1:]])[None]).last_hidden_state[0]
        for i, token in enumerate(row):
            said = torch.softmax(o.detector(states[i]), dim=0)
            total = total - torch.log(said[int(edited[i] != token)])
            count += 1
    return total / count


def test_the_terms_and_gradients_match_the_slow_reference(made: Callable[..., DiffCSE], sentences: list[str]) -> None:
    objective = made()
    batch = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    terms = objective([dict(batch)])
    assert list(terms) == ["contrastive", "difference"]
    assert 0.05 < objective.diagnostics["replaced_tokens"] < 0.5
    slow = slow_loss(objective, batch)
    assert terms["difference"].item() == pytest.approx(0.5 * slow.item(), rel=1e-9)
    assert_same_gradients(gradients(terms["difference"], objective), gradients(0.5 * slow, objective))
    plain = SimCSE(objective.model, temperature=0.2).double()
    plain.head = objective.head
    expected = plain([dict(batch)])["contrastive"]
    assert objective([dict(batch)])["contrastive"].item() == pytest.approx(expected.item(), rel=1e-12)


def test_a_detector_that_says_nothing_has_the_loss_of_a_coin(
    made: Callable[..., DiffCSE], sentences: list[str]
) -> None:
    objective = made(weight=1.0)
    assert objective.detector is not None
    nn.init.zeros_(objective.detector.weight)
    nn.init.zeros_(objective.detector.bias)
    batch = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    assert objective([dict(batch)])["difference"].item() == pytest.approx(math.log(2), rel=1e-12)
    objective.detector.bias.data = torch.tensor([3.0, 0.0], dtype=torch.float64)  # "as it was", whatever it reads
    share = objective.diagnostics["replaced_tokens"].item()
    expected = share * math.log(1 + math.exp(3)) + (1 - share) * math.log(1 + math.exp(-3))
    assert objective([dict(batch)])["difference"].item() == pytest.approx(expected, rel=1e-6)
    assert objective.diagnostics["replaced_found"] == 0
    assert objective.diagnostics["kept_found"] == 1


def test_the_discriminators_gradient_reaches_the_encoder_through_the_vector_alone(
    made: Callable[..., DiffCSE], sentences: list[str]
) -> None:
    objective = made()
    batch = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    edited, counted = objective.edited(batch)
    z = torch.randn(16, 16, dtype=torch.float64, requires_grad=True)
    objective.zero_grad()
    objective.detection_loss(z, batch, edited, counted).backward()
    assert z.grad is not None
    assert (z.grad.abs().amax(dim=1) > 1e-6).all(), "each row's vector is read"
    assert all(p.grad is None for name, p in objective.named_parameters() if name.startswith(("model.", "head.")))


def test_which_tokens_are_hidden_and_how() -> None:
    ids = torch.arange(10, 16)[None]
    replaceable = torch.tensor([[False, True, True, True, True, False]])
    draws = [[0.0, 0.1, 0.29, 0.31, 0.2, 0.0], [0.0, 0.79, 0.85, 0.0, 0.95, 0.0], [0.0, 0.0, 0.999, 0.0, 0.5, 0.0]]
    chosen, hidden = chosen_and_masked(
        ids, replaceable, 0.3, 4, 30, lambda number, shape, device: torch.tensor([draws[number]])
    )
    assert chosen.tolist() == [[False, True, True, False, True, False]]
    assert hidden.tolist() == [[10, 4, 29, 13, 14, 15]]


def test_predictions_at_some_places_are_those_of_whole_logits(folder: Path, sentences: list[str]) -> None:
    generator = MaskedLM(str(folder))
    batch = generator.tokenizer(sentences * 5, padding=True, return_tensors="pt")  # 40 rows: two passes
    ids, mask = batch["input_ids"], batch["attention_mask"]
    wanted = (torch.rand(ids.shape, generator=torch.Generator().manual_seed(0)) < 0.3) & mask.bool()
    wanted[3] = False
    found = predicted(generator, ids, mask, wanted)
    with torch.no_grad():
        logits = generator.model(input_ids=ids, attention_mask=mask).logits
    assert torch.equal(found, torch.where(wanted, logits.argmax(-1), ids))
    assert torch.equal(predicted(generator, ids, mask, torch.zeros_like(wanted)), ids)


def test_special_tokens_and_padding_are_never_replaced(made: Callable[..., DiffCSE], sentences: list[str]) -> None:
    objective = made(masking=0.99)
    batch = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    edited, counted = objective.edited(batch)
    ids, mask = batch["input_ids"].repeat(2, 1), batch["attention_mask"].repeat(2, 1).bool()
    kept = torch.isin(ids, objective.special_tokens) | ~mask
    assert torch.equal(edited[kept], ids[kept])
    assert torch.equal(counted, mask)
    assert (edited != ids).any()


def test_without_its_weight_it_is_simcse_without_a_second_encoder(
    made: Callable[..., DiffCSE], sentences: list[str]
) -> None:
    objective = made(weight=0.0, dropout=0.1)
    assert (objective.generator, objective.discriminator, objective.detector) == (None, None, None)
    assert sorted(objective.own_state()) == ["head.dense.bias", "head.dense.weight"]
    batch = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    plain = SimCSE(objective.model, temperature=0.2).double()
    plain.head = objective.head
    losses = []
    for each in (objective, plain):
        torch.manual_seed(3)
        losses.append(each([dict(batch)]))
    assert list(losses[0]) == ["contrastive"]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-12, atol=0)


def test_permuting_the_batch_and_wider_padding_change_nothing(
    made: Callable[..., DiffCSE], sentences: list[str]
) -> None:
    objective = made(head="bn")
    batch = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    expected = objective([dict(batch)])
    for other in (reordered(batch), wider(batch)):
        torch.testing.assert_close(objective([other]), expected, rtol=1e-8, atol=1e-11)


def test_padding_on_the_left_changes_nothing(made: Callable[..., DiffCSE], sentences: list[str]) -> None:
    objective = made()
    tokenizer: Any = objective.model.tokenizer
    right = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    expected = objective([dict(right)])
    tokenizer.padding_side = "left"
    left = dict(objective.model.preprocess(sentences))  # type: ignore[operator]
    assert not left["attention_mask"][:, 0].all()
    # The draws of a token, which are those of its place, stay with it.
    places = (left["attention_mask"].cumsum(dim=1) - 1).clamp(min=0).repeat(2, 1)
    objective.draw = lambda number, shape, device: NUMBERS[number][places]  # type: ignore[method-assign]
    torch.testing.assert_close(objective([left]), expected, rtol=1e-10, atol=1e-13)


def test_the_second_encoder_starts_as_a_copy_and_is_trained(folder: Path, sentences: list[str]) -> None:
    model = load_sentence_transformer(str(folder), device="cpu").train()
    objective = DiffCSE(model, weight=1.0)
    assert objective.discriminator is not None
    for name, value in objective.discriminator.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])
    grads = gradients(sum(objective([Encoder(model).tokenise(sentences)]).values()), objective)
    assert any(name.startswith("discriminator.") and grad.abs().max() > 0 for name, grad in grads.items())
    assert all(not parameter.requires_grad for parameter in objective.generator.model.parameters())  # type: ignore[union-attr]


def test_another_vocabulary_or_width_is_told(
    folder: Path, tmp_path: Path, make_masked_lm: Callable[..., Path], sentences: list[str]
) -> None:
    from transformers import AutoTokenizer

    model = load_sentence_transformer(str(folder), device="cpu")
    other = make_masked_lm(tmp_path / "other", seed=1)
    tokenizer = AutoTokenizer.from_pretrained(other)
    vocabulary = tokenizer.get_vocab()
    type(tokenizer)(vocab={token: (n + 1) % len(vocabulary) for token, n in vocabulary.items()}).save_pretrained(other)
    with pytest.raises(UserError, match="has another vocabulary than the model to train"):
        DiffCSE(model, generator=str(other))
    DiffCSE(model, weight=0.0)
    model.append(Dense(16, 20, activation_function=nn.Identity()))
    with pytest.raises(UserError, match="vectors no longer than the model's embeddings, 16, not 20"):
        DiffCSE(model)


def test_a_model_without_a_head_is_told_the_options_name(make_encoder_model: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="with generator="):
        DiffCSE(make_encoder_model("bert"))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"masking": 0.0}, "masking must lie between 0 and 1"), ({"weight": -1.0}, "weight must not be negative")],
)
def test_wrong_options_are_refused(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DiffCSE(load_sentence_transformer(str(folder), device="cpu"), **options)
