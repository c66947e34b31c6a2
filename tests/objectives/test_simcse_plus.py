"""SimCSE++ against slow renderings of its equations, and its invariants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gradient_checks import assert_same_gradients, gradients, reordered, wider

from holdfast.objectives import SimCSE, SimCSEPlus

CASES: list[dict[str, Any]] = [
    {},
    {"positive_scale": 0.7, "dimension_weight": 0.5, "dimension_temperature": 2.0},
    {"negatives_dropout": True, "head": "none"},
    {"dimension_weight": 0.0},
]


def slow_terms(
    o: SimCSEPlus, z: list[torch.Tensor], positives: list[torch.Tensor], still: list[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Each similarity and each product of two columns by itself."""
    count, width = len(z), len(z[0])

    def cosine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b / a.norm() / b.norm()

    contrastive = torch.zeros((), dtype=torch.float64)
    for i in range(count):
        above = (o.positive_scale * cosine(z[i], positives[i]) / o.temperature).exp()
        below = above
        for j in range(count):
            if j != i:
                pair = (z[i], positives[j]) if o.negatives_dropout else (still[i], still[j])
                below = below + (cosine(*pair) / o.temperature).exp()
        contrastive = contrastive - (above / below).log() / count
    terms = {"contrastive": contrastive}
    if o.dimension_weight:

        def column(rows: list[torch.Tensor], c: int) -> torch.Tensor:
            values = torch.stack([row[c] for row in rows])
            return (values - values.mean()) / (values.var(unbiased=False) + 1e-5).sqrt()

        total = torch.zeros((), dtype=torch.float64)
        for c in range(width):
            products = [
                (column(z, c) @ column(positives, other) / count / o.dimension_temperature).exp()
                for other in range(width)
            ]
            total = total - (products[c] / sum(products)).log() / width
        terms["dimensions"] = o.dimension_weight * total
    return terms


@pytest.mark.parametrize("changes", CASES)
def test_terms_and_gradients_match_the_slow_reference(
    exact_model: Any, batch: dict[str, Any], changes: dict[str, Any]
) -> None:
    objective = SimCSEPlus(exact_model, temperature=0.2, **changes).double()
    terms = objective([dict(batch)])
    dense = objective.head.dense
    rows = []
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        hidden = exact_model.transformers_model(ids[mask.bool()][None]).last_hidden_state[0, 0]
        rows.append(hidden if dense is None else torch.tanh(dense.weight @ hidden + dense.bias))
    slow = slow_terms(objective, rows, rows, rows)
    assert list(terms) == list(slow)
    for name, value in slow.items():
        assert terms[name].item() == pytest.approx(value.item(), rel=1e-9)
    assert_same_gradients(gradients(sum(terms.values()), objective), gradients(sum(slow.values()), objective))


@pytest.mark.parametrize("changes", CASES)
def test_terms_of_three_different_passes_match_the_slow_reference(exact_model: Any, changes: dict[str, Any]) -> None:
    objective = SimCSEPlus(exact_model, temperature=0.2, **changes)
    z, positive, still = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    negatives = None if objective.negatives_dropout else still
    found = objective.compute_loss(z, positive, negatives)
    slow = slow_terms(objective, list(z), list(positive), list(still))
    assert {name: term.item() for name, term in found.items()} == pytest.approx(
        {name: term.item() for name, term in slow.items()}, rel=1e-10
    )


def test_the_contrast_of_dimensions_has_known_values(exact_model: Any) -> None:
    objective = SimCSEPlus(exact_model, dimension_temperature=0.5)
    same = torch.randn(9, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64).expand(9, 4)
    assert objective.dimension_loss(same, same).item() == pytest.approx(math.log(4)), "all dimensions are alike"
    apart = torch.from_numpy(np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=float))
    expected = math.log(1 + 2 * math.exp(-1 / (1 + 1e-5) / 0.5))
    assert objective.dimension_loss(apart, apart).item() == pytest.approx(expected, rel=1e-9), "uncorrelated dimensions"
    moved = 3.0 * apart + torch.tensor([1.0, 2.0, 5.0])  # up to the 1e-5 that is added to a variance
    assert objective.dimension_loss(moved, apart).item() == pytest.approx(expected, rel=1e-4)
    constant = torch.ones(4, 3, dtype=torch.float64)
    assert objective.dimension_loss(constant, constant).item() == pytest.approx(math.log(3))


def test_the_contrast_of_sentences_has_known_values(exact_model: Any) -> None:
    objective = SimCSEPlus(exact_model, temperature=0.5, positive_scale=0.9)
    same = torch.ones(5, 16, dtype=torch.float64)
    apart = torch.eye(16, dtype=torch.float64)[:5]
    expected = math.log(1 + 4 * math.exp(-0.9 / 0.5))  # negatives of cosine 0
    assert objective.losses_of_texts(same, same, apart, apart).mean().item() == pytest.approx(expected)
    expected = math.log(1 + 4 * math.exp((1 - 0.9) / 0.5))  # of cosine 1
    assert objective.losses_of_texts(same, same, same, same).mean().item() == pytest.approx(expected)


def test_the_negatives_are_encoded_without_dropout(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model("bert").train()
    objective = SimCSEPlus(model, head="none").train()
    given: list[Any] = []
    compute_loss = objective.compute_loss
    objective.compute_loss = lambda *vectors: given.append(vectors) or compute_loss(*vectors)  # type: ignore[func-returns-value,method-assign]
    features = dict(model.preprocess(sentences))
    objective([dict(features)])
    assert model.training, "the mode is restored"
    z, positive, still = given[0][:3]
    with torch.no_grad():
        expected = model.eval()(dict(features))["sentence_embedding"]
    torch.testing.assert_close(still, expected, rtol=0, atol=1e-5)
    assert still.requires_grad
    assert min((z - positive).abs().max(), (z - still).abs().max(), (positive - still).abs().max()) > 1e-2


def test_without_its_idea_it_is_simcse_with_the_same_dropout(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model("bert").train()
    torch.manual_seed(1)
    plain = SimCSE(model)
    torch.manual_seed(1)
    objective = SimCSEPlus(model, positive_scale=0.9)
    features = dict(model.preprocess(sentences))
    torch.manual_seed(2)
    expected = plain([dict(features)])["contrastive"]
    torch.manual_seed(2)
    with objective.without_idea():
        terms = objective([dict(features)])
    assert list(terms) == ["contrastive"]
    torch.testing.assert_close(terms["contrastive"], expected, rtol=1e-6, atol=1e-7)


def test_permuting_the_batch_and_wider_padding_change_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = SimCSEPlus(exact_model).double()
    expected = objective([dict(batch)])
    for other in (reordered(batch), wider(batch)):
        torch.testing.assert_close(objective([other]), expected, rtol=1e-9, atol=1e-12)


def test_a_column_of_positives_is_refused(exact_model: Any, batch: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one column"):
        SimCSEPlus(exact_model)([dict(batch), dict(batch)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive_scale": 0.0}, "positive_scale must be positive"),
        ({"dimension_temperature": -1.0}, "dimension_temperature must be positive"),
        ({"dimension_weight": -0.1}, "dimension_weight must not be negative"),
    ],
)
def test_wrong_options_are_refused(exact_model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimCSEPlus(exact_model, **options)
