"""Equal texts in a batch, or in a queue, are no negatives of one another: in every method, and in an attack's passes.

That each pass is told which texts are equal is tested of the methods; what it makes of that in `test_equal_terms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradient_checks import gradients, wider

from holdfast.adversary.weakening import Weakening
from holdfast.objectives import (
    ADCL,
    L2PCSR,
    METHODS,
    AdCSE,
    Combined,
    ConSERT,
    ContrastiveTension,
    DiffCSE,
    Objective,
    RankCSE,
    RobustEmbed,
    SimCSE,
    SimCSEPlus,
    VAdvCSE,
    contrastive_objective,
)
from holdfast.objectives import adcl as adcl_module
from holdfast.objectives import objective as base_module
from holdfast.training.method_options import option_defaults

ALL = {
    "keys": "momentum",
    "negatives": "batch+queue+adversaries",
    "queue_size": 20,
    "adversaries": 5,
    "adversarial_positive": True,
    "weakening": True,
    "regularisation": 0.5,
}
CASES: dict[str, tuple[type[Objective], dict[str, Any]]] = {
    "simcse": (SimCSE, {}),
    "v-advcse": (VAdvCSE, {"head": "tanh"}),
    "v-advcse without attack": (VAdvCSE, {"regularisation": 0.0, "head": "tanh"}),
    "robustembed": (RobustEmbed, {}),
    "robustembed, clean negatives": (RobustEmbed, {"negatives": "clean"}),
    "robustembed, as released": (RobustEmbed, {**RobustEmbed.PRESETS["as_released"], "duplicates": "mask"}),
    "uscal": (RobustEmbed, {**RobustEmbed.PRESETS["uscal"], "duplicates": "mask"}),
    "atcl": (RobustEmbed, {**RobustEmbed.PRESETS["atcl"], "duplicates": "mask"}),
    "consert": (ConSERT, {}),
    "consert, adversarial": (ConSERT, {"first_view": "adversarial"}),
    "ct": (ContrastiveTension, {"negatives": 5}),
    "adcse": (AdCSE, {"negatives": 5}),
    "adcse, tied": (AdCSE, {"negatives": 0, "untied": False}),
    "l2p-csr": (L2PCSR, {}),
    "l2p-csr, noise": (L2PCSR, {"noise": "embedding"}),
    "l2p-csr, no masks": (L2PCSR, {"token_mask": False, "feature_mask": False}),
    "adcl": (ADCL, {"positives": "dropout", "queue_size": 30}),
    "rankcse": (RankCSE, {"distillation": "listnet"}),
    "rankcse, listmle": (RankCSE, {"rank_positives": True}),
    "simcse-plus": (SimCSEPlus, {"dimension_weight": 0.0}),
    "diffcse": (DiffCSE, {"weight": 0.0, "head": "tanh"}),
    "combined": (Combined, {}),
    "combined, weakened": (Combined, {"weakening": True, "adversarial_positive": True}),
    "combined, all": (Combined, ALL),
}
WITH_QUEUE = ("adcl", "combined, all")
TOLD = [0, 1, 0, 2, 3, 1, 4, 0]
"""Which sentence each row of a batch is: five of the eight have an equal one."""


def made(case: str, model: Any, seed: int = 3, **changes: Any) -> Any:
    """An objective; what it draws for a sentence is the same in whichever row it stands."""
    kind, options = CASES[case]
    torch.manual_seed(seed)
    objective: Any = kind(model, **{**options, **changes})
    normal = torch.randn(64, 16, dtype=torch.float64)
    uniform = torch.rand(2, 64, dtype=torch.float64)
    if isinstance(objective, (RobustEmbed, Combined)):
        objective.initial_noise = lambda x: (normal * 1e-3)[: x.shape[1]].expand_as(x).to(x)
    if isinstance(objective, VAdvCSE):
        objective.initial_noise = lambda x, mask: (normal * 0.1)[: x.shape[1]].expand_as(x).to(x)
    if isinstance(objective, Combined):
        objective.initial_perturbation = lambda h, mask: (normal * 0.1)[:1].expand_as(h).to(h)
    if isinstance(objective, ConSERT):
        objective.draw = lambda view, shape, device: uniform[view, : shape[1]].expand(shape)
    if isinstance(objective, L2PCSR):
        objective.initial_noise = lambda x: (normal * 1e-3)[: x.shape[1]].expand_as(x).to(x)
    if isinstance(objective, (L2PCSR, Combined)):
        layers = objective.layers if isinstance(objective, L2PCSR) else objective.weakening_layers

        def probabilities(x: torch.Tensor) -> Weakening:
            views = torch.arange(len(x)) // 8 % 2
            return Weakening(*(uniform[views, :n].expand(layers, -1, -1).clone().to(x) for n in x.shape[1:]))

        objective.initial_probabilities = probabilities
    return objective


def rows_of(batch: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    return {key: value[rows] if isinstance(value, torch.Tensor) else value for key, value in batch.items()}


def loss_of(objective: Any, *columns: dict[str, Any]) -> torch.Tensor:
    return sum(objective([dict(column) for column in columns]).values(), torch.zeros(()))


@pytest.mark.parametrize("case", CASES)
def test_without_equal_texts_nothing_changes_to_the_bit(
    case: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    """In fp32, with dropout; a queue holds the keys of other sentences."""
    found = []
    for duplicates in ("mask", "keep"):
        model = make_encoder_model("bert").train()
        objective = made(case, model, duplicates=duplicates)
        before = [" ".join(reversed(sentence.split())) for sentence in sentences]
        losses = [loss_of(objective, model.preprocess(texts)) for texts in (before, sentences)]
        assert objective.diagnostics["duplicates"] == 0
        found.append((torch.stack(losses), gradients(losses[1], objective)))
    (masked, grads), (kept, others) = found
    assert torch.equal(masked, kept)
    assert grads.keys() == others.keys()
    if case == "ct":  # its mask gives the gradient another memory layout, and some processors then add in another order
        torch.testing.assert_close(grads, others, rtol=1e-5, atol=2e-6)
    else:
        assert all(torch.equal(grads[name], others[name]) for name in grads)
    assert max(grad.abs().max() for grad in grads.values()) > 1e-4


class Seen:
    """What the losses of a forward pass are told of equal texts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, objective: Any) -> None:
        self.equal: list[torch.Tensor | None] = []
        self.queued: list[torch.Tensor | None] = []
        for module in (__import__(type(objective).__module__, fromlist=["x"]), contrastive_objective):
            for name, place in (("info_nce", None), ("_clean_negatives", 4), ("without_equal", 1)):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, self._spy(getattr(module, name), place))
        place = {ContrastiveTension: 4, SimCSEPlus: 3}.get(type(objective))
        if place is not None:
            monkeypatch.setattr(objective, "compute_loss", self._spy(objective.compute_loss, place))

    def _spy(self, function: Any, place: int | None) -> Any:
        def spied(*given: Any, **named: Any) -> Any:
            self.equal.append(named.get("equal") if place is None else given[place])
            self.queued.append(named.get("extra_mask"))
            return function(*given, **named)

        return spied


@pytest.mark.parametrize("case", [case for case in CASES if case != "adcl"])
def test_every_pass_is_told_which_texts_are_equal(
    case: str, exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = made(case, exact_model).double()
    seen = Seen(monkeypatch, objective)
    objective([rows_of(batch, TOLD)])
    expected = torch.tensor([[one == other for other in TOLD] for one in TOLD])
    if case.startswith("consert"):
        expected = expected.repeat(2, 2)
    released = expected.repeat(2, 2)[0::2, 1::2]
    allowed = [expected, released] if case == "robustembed, as released" else [expected]
    assert seen.equal
    for equal in seen.equal:
        assert equal is not None
        assert any(torch.equal(equal, known) for known in allowed)
    assert objective.diagnostics["duplicates"].item() == pytest.approx(5 / 8)


@pytest.mark.parametrize("case", CASES)
def test_the_order_and_the_padding_of_a_batch_with_equal_texts_change_nothing(
    case: str, exact_model: Any, batch: dict[str, Any]
) -> None:
    if case in ("ct", "robustembed, as released"):
        pytest.skip("its pairs are made by the rows' order")
    mixed = [TOLD[i] for i in (3, 0, 7, 1, 6, 2, 5, 4)]
    found = []
    for features, rows in ((batch, TOLD), (batch, mixed), (wider(batch), TOLD)):
        objective = made(case, exact_model).double()
        loss_of(objective, rows_of(features, [4, 5, 6, 7, 0, 1, 2, 3]))  # into the queue, where there is one
        found.append(loss_of(objective, rows_of(features, rows)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(found[2], found[0], rtol=1e-8, atol=1e-10)
    assert found[0] != 0


@pytest.mark.parametrize("case", CASES)
def test_a_batch_of_one_text_teaches_nothing_by_contrast(case: str, exact_model: Any, batch: dict[str, Any]) -> None:
    objective = made(case, exact_model).double()
    loss_of(objective, rows_of(batch, [2] * 8))  # into the queue, where there is one
    terms = objective([rows_of(batch, [2] * 8)])
    gradient = gradients(sum(terms.values()), objective)
    assert all(torch.isfinite(value).all() for value in gradient.values())
    assert objective.diagnostics["duplicates"] == 1
    if case == "ct":  # the positives alone, of K + 1 pairs each
        products = objective.diagnostics["positive_product"]
        expected = torch.nn.functional.softplus(-products) / 6
        assert terms["tension"].item() == pytest.approx(expected.item())
    elif case not in ("adcse", "combined, all"):  # whose learned negatives are of no text
        contrast = sum(value for name, value in terms.items() if name != "regulariser")
        assert contrast.item() == pytest.approx(0, abs=1e-12)
        if "regulariser" not in terms:
            assert max(value.abs().max() for value in gradient.values()) < 1e-12


@pytest.mark.parametrize("case", WITH_QUEUE)
def test_a_key_in_the_queue_is_no_negative_of_an_equal_text(
    case: str, exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = made(case, exact_model).double()
    objective([rows_of(batch, TOLD)])
    assert objective.diagnostics["duplicates_in_queue"] == 0
    seen = Seen(monkeypatch, objective)
    now = [0, 5, 6, 7, 4, 5, 2, 2]
    objective([rows_of(batch, now)])
    expected = torch.tensor([[one != other for other in TOLD] for one in now])
    for counts in seen.queued:
        assert counts is not None
        assert torch.equal(counts[:, -8:], expected)
        assert counts[:, :-8].all(), "learned negatives"
    assert objective.diagnostics["duplicates_in_queue"].item() == pytest.approx(4 / 8)
    kept = made(case, exact_model, duplicates="keep").double()
    kept([rows_of(batch, TOLD)])
    seen = Seen(monkeypatch, kept)
    kept([rows_of(batch, now)])
    assert all(counts[:, -8:].all() for counts in seen.queued if counts is not None)


def test_the_geometry_attack_climbs_away_from_no_equal_text(
    exact_model: Any, batch: dict[str, Any], masked_lm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"positives": "geometry", "masked_lm": str(masked_lm), "projection_size": 8, "queue_size": 12}
    objective = made("adcl", exact_model, **options, source="masked-lm", max_share=0.5, min_similarity=-1.0).double()
    objective.queue.push(objective.follower.keys(batch), base_module.text_hashes(batch))
    asked: list[Any] = []
    info_nce = adcl_module.info_nce
    monkeypatch.setattr(adcl_module, "info_nce", lambda *a, **k: asked.append(k["extra_mask"]) or info_nce(*a, **k))
    objective([rows_of(batch, [0, 2])])
    assert len(asked) > 1, "the attack's passes, and the loss"
    for counts in asked:
        assert counts.shape[1] == 8, "nothing of the four empty slots"
        assert (counts.sum(dim=1) == 7).all(), "eight keys, one of them of the same text"
    assert not asked[-1][0, 0]
    assert not asked[-1][1, 2]


@pytest.mark.parametrize("case", ["simcse", "v-advcse", "adcse", "adcl"])
def test_pairs_that_share_a_text_are_equal(
    case: str, exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"positives": "given"} if case == "adcl" else {}
    objective = made(case, exact_model, **changes).double()
    first, second = [0, 1, 2, 3, 0], [4, 5, 6, 1, 7]  # 0 is asked twice; what answers 3 is the question 1
    seen = Seen(monkeypatch, objective)
    if case == "adcl":
        objective([rows_of(batch, first), rows_of(batch, second)])
        seen.queued.clear()
    objective([rows_of(batch, first), rows_of(batch, second)])
    expected = torch.eye(5, dtype=torch.bool)
    for one, other in ((0, 4), (1, 3)):
        expected[one, other] = expected[other, one] = True
    if case == "adcl":
        assert seen.queued[-1] is not None
        assert torch.equal(~seen.queued[-1][:, :5], expected)
    else:
        assert seen.equal[-1] is not None
        assert torch.equal(seen.equal[-1], expected)
    assert objective.diagnostics["duplicates"].item() == pytest.approx(4 / 5)


def test_texts_of_other_processes_are_compared_too(
    exact_model: Any, batch: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = base_module.text_hashes(rows_of(batch, [1, 6]))
    monkeypatch.setattr(base_module, "gather_keys", lambda mine: (torch.cat([there, mine]), 2))
    objective = made("simcse", exact_model)
    equal = objective.equal_texts(rows_of(batch, [1, 3]))
    assert equal.tolist() == [[True, False, True, False], [False, False, False, True]]
    assert objective.diagnostics["duplicates"] == 0.5


def test_what_is_kept_is_counted(exact_model: Any, batch: dict[str, Any]) -> None:
    masked, kept = (made("simcse", exact_model, duplicates=word).double() for word in ("mask", "keep"))
    losses = [loss_of(objective, rows_of(batch, TOLD)) for objective in (masked, kept)]
    assert losses[0] < losses[1] - 0.1
    assert kept.diagnostics["duplicates"].item() == pytest.approx(5 / 8)
    assert kept.equal_texts(rows_of(batch, TOLD)) is None


def test_every_method_that_contrasts_masks_and_the_papers_presets_keep() -> None:
    without = []
    for name, kind in METHODS.items():
        if "duplicates" not in (defaults := option_defaults(kind)):
            without.append(name)
            continue
        assert defaults["duplicates"] == "mask", name
        assert "paper" in kind.PRESETS or name == "combined", name
        assert all(preset["duplicates"] == "keep" for preset in kind.PRESETS.values()), name
    assert without == ["anchored"], "which contrasts nothing"


def test_another_word_is_refused(exact_model: Any) -> None:
    with pytest.raises(ValueError, match="duplicates must be one of mask, keep, got 'drop'"):
        SimCSE(exact_model, duplicates="drop")  # type: ignore[arg-type]
