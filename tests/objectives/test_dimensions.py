"""The loss at several numbers of dimensions: what is shortened, what is encoded once, and what the weights do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_checks import gradients
from sentence_transformers import util
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss, MultipleNegativesRankingLoss
from torch.nn import functional as F

from holdfast.adversary.paired_noise import PairedNoise
from holdfast.backbone import Backbone
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Anchored, SimCSE
from holdfast.objectives.anchored import distances, relations_divergence
from holdfast.objectives.dimensions import fitted_dimensions, parse_dimensions, shortened
from holdfast.objectives.regulariser_weight import RegulariserWeight
from small_options import ADCL_WITH_LM, COMBINED

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "simcse": ("simcse", {"head": "none"}),
    "simcse, batch norm": ("simcse", {"head": "bn"}),
    "consert": ("consert", {}),
    "consert, adversarial": ("consert", {"first_view": "adversarial"}),
    "ct": ("ct", {"negatives": 5}),
    "v-advcse": ("v-advcse", {}),
    "v-advcse, token": ("v-advcse", {"space": "token", "norm": "inf"}),
    "robustembed": ("robustembed", {}),
    "adcl": ("adcl", ADCL_WITH_LM),
    "adcse": ("adcse", {}),
    "adcse, tied": ("adcse", {"untied": False}),
    "l2p-csr": ("l2p-csr", {"layers": 2, "threshold": 0.4}),
    "combined": ("combined", COMBINED),
    "combined, two views": ("combined", {"adversarial_positive": True, "regularisation": 0.5, "head": "bn"}),
    "anchored": ("anchored", {"adversarial": 0.5}),
    "rankcse": ("rankcse", {}),
    "simcse-plus": ("simcse-plus", {}),
    "diffcse": ("diffcse", {"generator": "LM"}),
    "anchored, both": ("anchored", {"adversarial": 0.5, "forms": "both"}),
}


def test_sizes_and_weights_from_text() -> None:
    assert parse_dimensions("768, 256:0.5,64:0.25") == {768: 1.0, 256: 0.5, 64: 0.25}
    assert fitted_dimensions({4: 1.0, 8: 2.0}, 16) == {16: 0.25, 8: 0.5, 4: 0.25}
    assert fitted_dimensions({16: 3.0, 8: 1.0}, 16) == {16: 0.75, 8: 0.25}


@pytest.mark.parametrize("text", ["", "a", "8,8", "0", "-3", "8:0", "8:nan", "8:x", "1.5"])
def test_wrong_sizes_are_told(text: str) -> None:
    with pytest.raises(UserError, match="--matryoshka"):
        parse_dimensions(text)
    with pytest.raises(UserError, match=r"--matryoshka 32: the model's vectors have 16 dimensions"):
        fitted_dimensions({32: 1.0}, 16)


def test_shortened_vectors_have_the_cosines_of_the_cut_ones() -> None:
    vectors = torch.randn(5, 16, dtype=torch.float64)
    cut = shortened(vectors, 6)
    assert (cut[:, 6:] == 0).all()
    torch.testing.assert_close(util.cos_sim(cut, cut), util.cos_sim(vectors[:, :6], vectors[:, :6]))
    torch.testing.assert_close(cut.norm(dim=1), vectors.norm(dim=1))
    assert shortened(vectors, 16) is vectors


def test_it_is_the_loss_of_sentence_transformers(exact_model: Any, sentences: list[str]) -> None:
    """MatryoshkaLoss around in-batch negatives, whose weights do not sum to 1; without dropout both views are equal."""
    objective = SimCSE(exact_model, head="none").double()
    objective.use_dimensions({8: 0.5, 4: 0.5})
    features = dict(exact_model.preprocess(sentences))
    ours = gradients(objective([features])["contrastive"], exact_model)
    stock = MatryoshkaLoss(exact_model, MultipleNegativesRankingLoss(exact_model), [16, 8, 4], [1.0, 0.5, 0.5])
    found = stock([dict(features), dict(features)], torch.empty(0))
    value = sum(found.values()) if isinstance(found, dict) else found
    theirs = gradients(value / 2, exact_model)
    assert ours.keys() == theirs.keys()
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-8)
    assert max(grad.abs().max() for grad in theirs.values()) > 1e-3


@pytest.mark.parametrize("case", CASES)
def test_every_method_encodes_once_and_uses_each_size(
    case: str,
    exact_model: Any,
    batch: dict[str, Any],
    tmp_path: Path,
    make_masked_lm: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    sentences: list[str],
) -> None:
    """The terms are those of whole vectors where all weight is theirs; else others, in as many passes of the model."""
    from holdfast.objectives import dimensions

    method, options = CASES[case]
    options = dict(options)
    if "masked_lm" in options:
        options["masked_lm"] = str(make_masked_lm(tmp_path / "lm"))
    if "generator" in options:  # of the same vocabulary
        options["generator"] = str(make_masked_lm(tmp_path / "lm"))
        exact_model = load_sentence_transformer(options["generator"], device="cpu").double().train()
        batch = dict(exact_model.preprocess(sentences))
    torch.manual_seed(5)
    objective = METHODS[method](exact_model, **options).double()
    objective.followed_by_trainer = True  # no state changes between the passes that are compared
    if hasattr(objective, "queue") and objective.queue is not None:
        objective.queue.push(torch.randn(20, objective.queue.keys.shape[1], dtype=torch.float64))
    passes: list[int] = []
    Backbone.of(exact_model)  # found by a pass of its own
    exact_model[0].register_forward_pre_hook(lambda *_: passes.append(1))
    sizes: list[int] = []
    whole = dimensions.shortened
    monkeypatch.setattr(dimensions, "shortened", lambda vectors, size: sizes.append(size) or whole(vectors, size))

    def terms() -> tuple[dict[str, float], int]:
        torch.manual_seed(8)
        objective.diagnostics = {}
        for module in objective.modules():
            if isinstance(module, PairedNoise):
                module.place[1] = 0
            if isinstance(module, RegulariserWeight) and module.fixed is None:
                module.running.zero_()
        passes.clear()
        return {name: value.item() for name, value in objective([batch]).items()}, len(passes)

    plain, passes_of_plain = terms()
    wanted = dict(objective.diagnostics)
    objective.use_dimensions({16: 1.0, 8: 1e-9})
    almost, passes_now = terms()
    assert passes_now == passes_of_plain
    assert {16, 8} == set(sizes)
    for name, value in plain.items():
        assert almost[name] == pytest.approx(value, rel=1e-5, abs=1e-9), name
    for name in wanted.keys() - {"attack_seconds", "attack_loss_rise", "attack_loss_share"}:
        torch.testing.assert_close(objective.diagnostics[name], wanted[name], rtol=1e-5, atol=1e-9)
    objective.use_dimensions({8: 1.0, 4: 1.0})
    shorter, _ = terms()
    moved = [name for name, value in plain.items() if abs(shorter[name] - value) > 1e-6 * abs(value)]
    assert moved == [name for name in plain if name != "difference"], "DiffCSE's discriminator reads whole vectors"


def test_shortened_vectors_learn_the_relations_of_whole_anchors(exact_model: Any, batch: dict[str, Any]) -> None:
    objective = Anchored(exact_model, relations=1.0).double()
    vectors, anchors, bank = torch.randn(3, 8, 16, dtype=torch.float64)
    objective.bank = F.normalize(bank, dim=1)
    found = objective.divergence(vectors, anchors, lambda each: shortened(each, 4))
    cut = F.normalize(bank[:, :4], dim=1)
    scores = F.normalize(vectors[:, :4], dim=1) @ cut.T / 0.03
    wanted = F.normalize(anchors, dim=1) @ F.normalize(bank, dim=1).T / 0.03
    expected = F.kl_div(scores.log_softmax(1), wanted.log_softmax(1), reduction="batchmean", log_target=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)
    plain = relations_divergence(vectors, anchors, objective.bank, 0.03)
    torch.testing.assert_close(objective.divergence(vectors, anchors), plain)
    assert distances(vectors, anchors).shape == (8,)
