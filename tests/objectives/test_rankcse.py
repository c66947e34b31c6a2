"""RankCSE against slow renderings of its equations, its invariants, and what its teachers read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradient_checks import assert_same_gradients, gradients, reordered, wider
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from torch.nn import functional as F

from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives import RankCSE, SimCSE
from holdfast.objectives.ranking import list_mle, list_net, mean_correlation
from holdfast.objectives.teacher_reading import features_for, reads_equal_tokens

CASES: list[dict[str, Any]] = [
    {},
    {"rank_positives": True, "consistency": 0.7, "ranking": 0.3},
    {"distillation": "listnet", "rank_temperature": 0.2, "teacher_temperature": 0.1},
    {"distillation": "listnet", "rank_positives": True, "head": "none"},
    {"consistency": 0.0, "ranking": 2.0},
    {"ranking": 0.0},
]


def vectors(model: Any, head: Any, batch: dict[str, Any]) -> list[torch.Tensor]:
    """Each sentence alone, through the model's own modules, and the head."""
    rows = []
    for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
        hidden = model.transformers_model(ids[mask.bool()][None]).last_hidden_state[0, 0]
        rows.append(hidden if head is None else torch.tanh(head.weight @ hidden + head.bias))
    return rows


def slow_terms(objective: RankCSE, batch: dict[str, Any], teacher: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The terms from single similarities; without dropout z and z⁺ are equal."""
    z = vectors(objective.model, objective.head.dense, batch)
    count, o = len(z), objective

    def cosine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b / a.norm() / b.norm()

    zero = torch.zeros((), dtype=torch.float64)
    contrastive, consistency, ranking = zero, zero, zero
    for i in range(count):
        ours = [cosine(z[i], each) for each in z]
        theirs = [float(cosine(teacher[i], each)) for each in teacher]
        exps = [(s / o.temperature).exp() for s in ours]
        contrastive = contrastive - torch.log(exps[i] / sum(exps)) / count
        p = [e / sum(exps) for e in exps]
        q = [(cosine(z[i], each) / o.temperature).exp() for each in z]
        q = [e / sum(q) for e in q]
        for a, b in zip(p, q, strict=True):
            m = (a + b) / 2
            consistency = consistency + (a * (a / m).log() + b * (b / m).log()) / 2 / count
        listed = [j for j in range(count) if o.rank_positives or j != i]
        weights = [(ours[j] / o.rank_temperature).exp() for j in listed]
        if o.distillation == "listmle":
            order = sorted(range(len(listed)), key=lambda n: -theirs[listed[n]])
            for place, n in enumerate(order):
                ranking = ranking - torch.log(weights[n] / sum(weights[k] for k in order[place:])) / count
        else:
            wanted = [math.exp(theirs[j] / o.teacher_temperature) for j in listed]
            for n in range(len(listed)):
                ranking = ranking - wanted[n] / sum(wanted) * torch.log(weights[n] / sum(weights)) / count
    terms = {"contrastive": contrastive}
    if o.consistency:
        terms["consistency"] = o.consistency * consistency
    if o.ranking:
        terms["ranking"] = o.ranking * ranking
    return terms


@pytest.mark.parametrize("changes", CASES)
def test_terms_and_gradients_match_the_slow_reference(
    exact_model: Any, make_encoder_model: Callable[..., Any], batch: dict[str, Any], changes: dict[str, Any]
) -> None:
    objective = RankCSE(exact_model, temperature=0.2, **changes).double()
    moved_teacher(objective)
    terms = objective([dict(batch)])
    teacher = vectors(objective.teachers[0], None, batch) if objective.ranking else [torch.ones(1)] * 8
    slow = slow_terms(objective, batch, [each.detach() for each in teacher])
    assert list(terms) == list(slow)
    for name, value in slow.items():
        assert terms[name].item() == pytest.approx(value.item(), rel=1e-9, abs=1e-12)
    assert_same_gradients(gradients(sum(terms.values()), objective), gradients(sum(slow.values()), objective))


def moved_teacher(objective: RankCSE) -> None:
    """Give the teacher other weights than the student."""
    generator = torch.Generator().manual_seed(3)
    for parameter in objective.teachers.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def test_the_consistency_is_that_of_two_different_views(exact_model: Any) -> None:
    """In NumPy: S_i are cosines of z_i with all z⁺, S'_i those of z⁺_i with all z."""
    z, other = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    objective = RankCSE(exact_model, temperature=0.3, ranking=0.0, consistency=1.0)
    found = objective.compute_loss(z, other, None)["consistency"].item()
    a, b = (each.numpy() / np.linalg.norm(each, axis=1, keepdims=True) for each in (z, other))
    p, q = (np.exp(s / 0.3) / np.exp(s / 0.3).sum(1, keepdims=True) for s in (a @ b.T, b @ a.T))
    m = (p + q) / 2
    assert found == pytest.approx(((p * np.log(p / m)).sum(1) + (q * np.log(q / m)).sum(1)).mean() / 2, rel=1e-10)
    assert found > 1e-3
    assert objective.compute_loss(z, z, None)["consistency"].item() == pytest.approx(0.0, abs=1e-12)


def test_list_mle_has_known_values_and_is_a_distribution_of_orders() -> None:
    logits = torch.tensor([[0.3, -1.2, 0.8, 0.1]], dtype=torch.float64)
    same = torch.zeros(1, 4, dtype=torch.float64)
    assert list_mle(same, logits).item() == pytest.approx(math.log(math.factorial(4)))
    total = 0.0
    for order in itertools.permutations(range(4)):
        scores = torch.empty(1, 4, dtype=torch.float64)
        scores[0, list(order)] = torch.arange(4.0, 0.0, -1.0, dtype=torch.float64)
        total += math.exp(-list_mle(logits, scores).item())
    assert total == pytest.approx(1.0, rel=1e-12), "the probabilities of all 24 orders"
    steep = 1000 * logits
    assert list_mle(steep, logits).item() == pytest.approx(0.0, abs=1e-12), "our order is the teacher's"
    assert list_mle(logits + 5.0, logits).item() == pytest.approx(list_mle(logits, logits).item(), rel=1e-12)
    stretched = logits * 7 - 2  # the order alone counts
    assert list_mle(logits, stretched).item() == list_mle(logits, logits).item()


def test_list_net_has_known_values() -> None:
    logits = torch.tensor([[0.3, -1.2, 0.8, 0.1]], dtype=torch.float64)
    same = torch.zeros(1, 4, dtype=torch.float64)
    assert list_net(same, logits).item() == pytest.approx(math.log(4))
    entropy = torch.distributions.Categorical(logits=logits[0]).entropy().item()
    assert list_net(logits, logits).item() == pytest.approx(entropy, rel=1e-12)
    leaf = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(list_net(leaf, logits).sum(), leaf)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", [list_mle, list_net])
def test_entries_that_are_left_out_count_in_no_list_and_have_no_gradient(loss: Callable[..., torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(1)
    logits, scores = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)
    left_out = torch.tensor([[0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=torch.bool)
    leaf = logits.clone().requires_grad_()
    found = loss(leaf, scores, left_out)
    kept = [0, 1, 3, 5]
    assert found[0].item() == pytest.approx(loss(logits[:1, kept], scores[:1, kept]).item(), rel=1e-12)
    assert found[1].item() == pytest.approx(loss(logits[1:2], scores[1:2]).item(), rel=1e-12)
    assert found[2].item() == 0.0, "an empty list"
    (slope,) = torch.autograd.grad(found.sum(), leaf)
    assert slope.isfinite().all()
    assert (slope[left_out] == 0).all()
    assert slope[0, kept].abs().max() > 1e-3


def test_the_correlation_with_the_teacher_is_that_of_numpy() -> None:
    cosines, scores = torch.randn(2, 2, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    left_out = torch.zeros(2, 7, dtype=torch.bool)
    left_out[0, 2] = True
    kept = [0, 1, 3, 4, 5, 6]
    rows = [np.corrcoef(cosines[0, kept], scores[0, kept])[0, 1], np.corrcoef(cosines[1], scores[1])[0, 1]]
    assert mean_correlation(cosines, scores, left_out).item() == pytest.approx(np.mean(rows), rel=1e-12)


def test_without_its_terms_it_is_simcse(exact_model: Any, batch: dict[str, Any]) -> None:
    torch.manual_seed(1)
    plain = SimCSE(exact_model).double()
    torch.manual_seed(1)
    objective = RankCSE(exact_model).double()
    with objective.without_idea():
        terms = objective([dict(batch)])
    assert list(terms) == ["contrastive"]
    assert torch.equal(terms["contrastive"], plain([dict(batch)])["contrastive"])


def test_permuting_the_batch_and_wider_padding_change_nothing(exact_model: Any, batch: dict[str, Any]) -> None:
    for distillation in ("listmle", "listnet"):
        objective = RankCSE(exact_model, distillation=distillation).double()  # type: ignore[arg-type]
        moved_teacher(objective)
        expected = objective([dict(batch)])
        for other in (reordered(batch), wider(batch)):
            torch.testing.assert_close(objective([other]), expected, rtol=1e-9, atol=1e-12)


def test_a_second_column_is_ranked_as_the_teacher_ranks_it(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = RankCSE(exact_model, distillation="listnet", rank_positives=True).double()
    moved_teacher(objective)
    others = {key: value.roll(3, 0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    scores = objective.teacher_scores(dict(batch), dict(others))
    alone = objective.teacher_scores(dict(batch))
    torch.testing.assert_close(scores, alone.roll(3, 1), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(scores, alone)


# --- teachers ------------------------------------------------------------------------------------------------------


@pytest.fixture
def teacher(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path / "teacher", seed=7)


def test_two_teachers_are_averaged_and_read_without_dropout(
    make_encoder_model: Callable[..., Any], teacher: Path, tmp_path: Path, make_masked_lm: Any, sentences: list[str]
) -> None:
    second = make_masked_lm(tmp_path / "second", seed=8)
    model = make_encoder_model("bert").train()
    objective = RankCSE(model, teacher=str(teacher), second_teacher=str(second), teacher_weight=0.25).train()
    features = Encoder(model).tokenise(sentences)
    cosines = []
    for folder in (teacher, second):
        with torch.no_grad():
            read = load_sentence_transformer(str(folder), device="cpu").eval()
            unit = F.normalize(Encoder(read).encode(Encoder(read).tokenise(sentences)), dim=1)
        cosines.append(unit @ unit.T)
    found = objective.teacher_scores(features)
    torch.testing.assert_close(found, 0.25 * cosines[0] + 0.75 * cosines[1], rtol=0, atol=1e-5)
    assert torch.equal(found, objective.teacher_scores(features))
    assert all(not parameter.requires_grad for parameter in objective.teachers.parameters())


@pytest.mark.parametrize("from_file", [False, True])
def test_the_order_is_that_of_cosines_in_fp32_also_under_autocast(
    from_file: bool, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    """Cosines in bf16 have steps of 0.004 to 0.008: many are equal, and the place in the batch orders them."""
    dense = Dense(16, 12)  # whose vectors are in bf16; those of a BERT's last normalisation are in fp32
    model = SentenceTransformer(modules=[*make_encoder_model("bert", pooling="mean"), dense], device="cpu").eval()
    objective, features = RankCSE(model), Encoder(model).tokenise(sentences)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        read = objective.encoder_of(objective.teachers[0]).encode(dict(features))
        labels = read.float() if from_file else None
        if from_file:
            objective.use_labels()
        found = objective.teacher_scores(dict(features), labels=labels)
    assert read.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    unit = F.normalize(read.float(), dim=1)
    torch.testing.assert_close(found, unit @ unit.T, rtol=0, atol=1e-6)


def test_a_teacher_with_another_tokeniser_reads_the_texts(
    teacher: Path, tmp_path: Path, make_masked_lm: Callable[..., Path], sentences: list[str]
) -> None:
    from transformers import AutoTokenizer

    student = make_masked_lm(tmp_path / "student")
    model, other = (load_sentence_transformer(str(folder), device="cpu") for folder in (student, teacher))
    assert reads_equal_tokens(model, other)
    tokenizer = AutoTokenizer.from_pretrained(teacher)
    vocabulary = tokenizer.get_vocab()
    moved = type(tokenizer)(vocab={token: (n + 1) % len(vocabulary) for token, n in vocabulary.items()})
    other[0].processor = moved
    assert not reads_equal_tokens(model, other)
    features = Encoder(model).tokenise(sentences)
    read = features_for(other, model, features, same_tokens=False)
    assert [moved.decode(ids, skip_special_tokens=True) for ids in read["input_ids"]] == sentences
    assert features_for(model, model, features, same_tokens=True) is features


def test_the_teachers_are_in_no_checkpoint(
    exact_model: Any, make_encoder_model: Callable[..., Any], teacher: Path
) -> None:
    objective = RankCSE(exact_model, teacher=str(teacher))
    assert sorted(objective.own_state()) == ["head.dense.bias", "head.dense.weight"]
    RankCSE(make_encoder_model("bert")).load_own_state(objective.own_state())


def test_the_vectors_of_a_file_replace_the_model_as_loaded(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = RankCSE(exact_model).double()
    expected = objective([dict(batch)])
    labels = exact_model(dict(batch))["sentence_embedding"].detach()
    objective.use_labels()
    assert list(objective.teachers.parameters()) == []
    torch.testing.assert_close(objective([dict(batch)], labels), expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(UserError, match="one column"):
        objective([dict(batch), dict(batch)], labels)


def test_the_default_teacher_is_said(exact_model: Any, teacher: Path) -> None:
    assert RankCSE(exact_model).notices == [
        "no teacher is named: the rankings to learn are those of the model as it was loaded"
    ]
    assert RankCSE(exact_model, teacher=str(teacher)).notices == []
    assert RankCSE(exact_model, ranking=0.0).notices == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher_weight": 1.5}, "teacher_weight must lie between 0 and 1"),
        ({"second_teacher": "x"}, "needs a first one"),
        ({"distillation": "listwise"}, "distillation must be one of listmle, listnet"),
        ({"ranking": -1.0}, "ranking must not be negative"),
        ({"rank_temperature": 0.0}, "rank_temperature must be positive"),
    ],
)
def test_wrong_options_are_refused(exact_model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankCSE(exact_model, **options)


def test_a_named_teacher_cannot_be_replaced_by_a_file(exact_model: Any, teacher: Path) -> None:
    with pytest.raises(ValueError, match="teacher= names another"):
        RankCSE(exact_model, teacher=str(teacher)).use_labels()
    with pytest.raises(ValueError, match="ranking=0 learns no order"):
        RankCSE(exact_model, ranking=0.0).use_labels()
