"""SimCSE against a slow rendering of its equation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gradient_checks import gradients, reordered, wider

from holdfast.objectives import SimCSE


def slow_simcse(model: Any, head: Any, batch: dict[str, Any], positives: dict[str, Any], tau: float) -> torch.Tensor:
    """Each sentence alone, each similarity by itself (SimCSE, eq. 4)."""

    def vectors(features: dict[str, Any]) -> list[torch.Tensor]:
        rows = []
        for i in range(len(features["input_ids"])):
            length = int(features["attention_mask"][i].sum())
            alone = {key: features[key][i : i + 1, :length] for key in ("input_ids", "attention_mask")}
            hidden = model.transformers_model(**alone).last_hidden_state[0, 0]
            rows.append(torch.tanh(head.dense.weight @ hidden + head.dense.bias))
        return rows

    z, keys = vectors(batch), vectors(positives)
    terms = []
    for i in range(len(z)):
        sims = torch.stack([torch.cosine_similarity(z[i], key, dim=0) / tau for key in keys])
        terms.append(sims.exp().sum().log() - sims[i])
    return torch.stack(terms).mean()


def test_loss_and_gradients_match_the_slow_reference(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = SimCSE(exact_model, temperature=0.07).double()
    terms = objective([dict(batch)])
    assert list(terms) == ["contrastive"]
    ours = gradients(terms["contrastive"], objective)
    slow = slow_simcse(exact_model, objective.head, batch, batch, 0.07)
    assert terms["contrastive"].item() == pytest.approx(slow.item(), rel=1e-9)
    theirs = gradients(slow, objective)
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-10)
    assert max(grad.abs().max() for grad in theirs.values()) > 1e-3


def test_given_positives_are_used(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = SimCSE(exact_model, duplicates="keep").double()  # each is another's positive
    others = {key: value.flip(0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    slow = slow_simcse(exact_model, objective.head, batch, others, 0.05)
    assert objective([dict(batch), dict(others)])["contrastive"].item() == pytest.approx(slow.item(), rel=1e-9)


def test_with_batch_normalisation_each_view_is_a_batch(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = SimCSE(exact_model, head="bn", temperature=0.1).double()
    generator = torch.Generator().manual_seed(1)
    for parameter in objective.head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    head: Any = objective.head
    mlp = torch.nn.Sequential(
        head.wide, torch.nn.BatchNorm1d(32), torch.nn.ReLU(), head.narrow, torch.nn.BatchNorm1d(16, affine=False)
    ).double()
    mlp[1].weight, mlp[1].bias = head.wide_norm.weight, head.wide_norm.bias
    others = {key: value.flip(1) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    others["position_ids"] = torch.arange(others["input_ids"].shape[1]).expand_as(others["input_ids"])
    ours = gradients(objective([dict(batch), dict(others)])["contrastive"], objective)
    z, keys = (mlp(exact_model(dict(features))["sentence_embedding"]) for features in (batch, others))
    sims = torch.cosine_similarity(z[:, None], keys[None], dim=-1) / 0.1
    theirs = gradients(torch.nn.functional.cross_entropy(sims, torch.arange(8)), objective)
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-10)
    assert sorted(objective.own_state()) == [
        *("head.narrow.weight", "head.narrow_norm.running_mean", "head.narrow_norm.running_var"),
        *("head.wide.weight", "head.wide_norm.bias", "head.wide_norm.running_mean", "head.wide_norm.running_var"),
        "head.wide_norm.weight",
    ]


def test_both_dropout_views_have_statistics_of_their_own(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    objective = SimCSE(model, head="bn")
    seen: list[torch.Tensor] = []
    compute_loss = objective.compute_loss
    objective.compute_loss = lambda *views: seen.extend(views[:2]) or compute_loss(*views)  # type: ignore[func-returns-value]
    objective([dict(model.preprocess(sentences))])
    for view in seen:  # the last normalisation has neither scale nor shift
        torch.testing.assert_close(view.mean(dim=0), torch.zeros(16), rtol=0, atol=1e-5)
        assert (view.var(dim=0, unbiased=False) > 0.5).all()
    assert (seen[0] - seen[1]).abs().max() > 0.1


def test_dropout_makes_the_two_views_differ(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    objective = SimCSE(model, head="none", temperature=1e-4)
    features = model.preprocess(sentences)
    model.eval()
    sure = objective([dict(features)])["contrastive"].item()
    model.train()
    assert objective([dict(features)])["contrastive"].item() > sure + 1e-3


def test_permuting_the_batch_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = SimCSE(exact_model).double()
    torch.testing.assert_close(objective([dict(batch)]), objective([reordered(batch)]), rtol=1e-9, atol=1e-12)


def test_wider_padding_changes_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = SimCSE(exact_model).double()
    torch.testing.assert_close(objective([dict(batch)]), objective([wider(batch)]), rtol=1e-9, atol=1e-12)


def test_own_state_is_the_head_and_not_the_encoder(exact_model: Any, make_encoder_model: Any) -> None:
    objective = SimCSE(exact_model)
    state = objective.own_state()
    assert sorted(state) == ["head.dense.bias", "head.dense.weight"]
    model = make_encoder_model("bert")
    torch.manual_seed(5)
    other = SimCSE(model)
    assert not torch.equal(other.head.dense.weight, objective.head.dense.weight)
    other.load_own_state(state)
    assert torch.equal(other.head.dense.weight, objective.head.dense.weight)
    with pytest.raises(ValueError, match="this objective has"):
        SimCSE(exact_model, head="none").load_own_state(state)


def test_works_as_a_loss_of_the_stock_trainer(make_encoder_model: Any, sentences: list[str], tmp_path: Any) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    model = make_encoder_model("bert")
    objective = SimCSE(model)
    before = objective.head.dense.weight.clone()
    arguments = SentenceTransformerTrainingArguments(str(tmp_path), max_steps=2, use_cpu=True, report_to="none")
    data = Dataset.from_dict({"sentence": sentences})
    SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=objective).train()
    assert not torch.equal(before, objective.head.dense.weight), "the head was not trained"


@pytest.mark.parametrize("temperature", [0.0, -0.05, float("nan")])
def test_a_temperature_that_is_none_is_refused(exact_model: Any, temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature must be positive"):
        SimCSE(exact_model, temperature=temperature)
