"""A batch in mini-batches: the gradient of every method's loss is that of the batch whose activations are all kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gradient_checks import assert_same_gradients, gradients

from holdfast import recomputation
from holdfast.backbone import Backbone
from holdfast.encoder import Encoder
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Objective, SimCSE
from small_options import ADCL_WITH_LM, COMBINED

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "simcse": ("simcse", {"head": "bn"}),
    "consert": ("consert", {"encoder_dropout": True}),
    "consert, no dropout": ("consert", {}),
    "consert, adversarial": ("consert", {"first_view": "adversarial", "encoder_dropout": True}),
    "ct": ("ct", {"negatives": 5, "dropout": True}),
    "v-advcse": ("v-advcse", {}),
    "v-advcse, token": ("v-advcse", {"space": "token", "norm": "inf"}),
    "robustembed": ("robustembed", {}),
    "robustembed, as released": ("robustembed", {"as_released": True}),
    "adcl": ("adcl", ADCL_WITH_LM),
    "adcl, swapped": ("adcl", {**ADCL_WITH_LM, "roles": "swapped"}),
    "adcse": ("adcse", {}),
    "adcse, tied": ("adcse", {"untied": False}),
    "l2p-csr": ("l2p-csr", {"layers": 2, "threshold": 0.4}),
    "l2p-csr, noise": ("l2p-csr", {"layers": 2, "noise": "embedding"}),
    "combined": ("combined", COMBINED),
    "anchored": ("anchored", {"adversarial": 0.5, "dropout": True, "tries": 2}),
    "rankcse": ("rankcse", {"distillation": "listnet"}),
    "simcse-plus": ("simcse-plus", {}),
    "diffcse": ("diffcse", {"generator": "LM", "weight": 0.5}),
    "anchored, both": ("anchored", {"adversarial": 0.5, "forms": "both"}),
}
MINI_BATCH = 3


class Passes:
    """The rows of each whole pass through the model; only of passes with gradients, unless ``all_passes``."""

    def __init__(self, model: Any, *, all_passes: bool = False) -> None:
        self.rows: list[int] = []

        Backbone.of(model)  # found by a pass of its own

        def count(_: Any, args: tuple[Any, ...], __: Any) -> None:
            if all_passes or torch.is_grad_enabled():
                self.rows.append(len(args[0]["attention_mask"]))

        model[0].register_forward_hook(count)  # not called after the embeddings alone


@pytest.fixture
def made(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Callable[..., tuple[Any, Objective]]:
    """``made(case, dropout=0.1)``: a model in fp64 and training mode, and the objective of a case, always the same.

    With ``dtype`` in another precision.
    """
    folder = make_masked_lm(tmp_path / "tiny")

    def make(case: str, dropout: float = 0.1, dtype: torch.dtype = torch.float64) -> tuple[Any, Objective]:
        model = load_sentence_transformer(str(folder), device="cpu").to(dtype).train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        method, options = CASES[case]
        torch.manual_seed(5)
        options = {name: str(folder) if value == "LM" else value for name, value in options.items()}
        objective = METHODS[method](model, **options).to(dtype)
        objective.length_groups = 1  # so that mini-batches, not groups by length, split a batch
        return model, objective

    return make


def step(
    model: Any, objective: Objective, sentences: list[str], *, bf16: bool = False
) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of a batch and its gradients: of the second batch, since ADCL's queue is empty in the first.

    In bf16 the backward pass is outside of autocast, as in a training.
    """
    features = dict(model.preprocess(sentences))
    torch.manual_seed(7)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        objective([features])
        objective.follow()
    filled = getattr(objective, "queue", None)
    if filled is not None:
        filled.push(torch.randn(20, filled.keys.shape[1], dtype=filled.keys.dtype))
    torch.manual_seed(8)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = torch.stack(list(objective([features]).values())).sum()
    return loss.item(), gradients(loss, objective)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_kept_activations(
    case: str, made: Callable[..., Any], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, objective = made(case)
    objective.use_mini_batches(MINI_BATCH)
    passes = Passes(model)
    loss, found = step(model, objective, sentences)
    assert max(passes.rows) == MINI_BATCH
    assert len(sentences) % MINI_BATCH, "a last mini-batch is smaller"
    cached = len(passes.rows)
    monkeypatch.setattr(recomputation, "checkpoint", lambda run, features, use_reentrant: run(features))
    model, objective = made(case)
    objective.use_mini_batches(MINI_BATCH)
    passes = Passes(model)
    expected, wanted = step(model, objective, sentences)
    assert cached > len(passes.rows), "nothing was computed again"
    assert loss == pytest.approx(expected, rel=1e-9)
    assert_same_gradients(found, wanted)


@pytest.mark.parametrize("case", [case for case in CASES if case.split(",")[0] not in ("consert", "l2p-csr")])
def test_without_dropout_gradients_are_those_of_the_whole_batch(
    case: str, made: Callable[..., Any], sentences: list[str]
) -> None:
    results = []
    for size in (None, MINI_BATCH):
        model, objective = made(case, dropout=0.0)
        if size is not None:
            objective.use_mini_batches(size)
        results.append(step(model, objective, sentences))
    (expected, wanted), (loss, found) = results
    assert loss == pytest.approx(expected, rel=1e-6)
    assert_same_gradients(found, wanted)


@pytest.mark.parametrize("case", ["simcse", "v-advcse, token", "robustembed", "adcl", "adcse", "l2p-csr", "anchored"])
def test_in_bf16_passes_are_made_again_in_bf16(
    case: str, made: Callable[..., Any], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradients are those of kept activations, though the backward pass is outside of autocast."""
    results, kinds = [], []
    for again in (True, False):
        if not again:
            monkeypatch.setattr(recomputation, "checkpoint", lambda run, features, use_reentrant: run(features))
        model, objective = made(case, dtype=torch.float32)
        objective.use_mini_batches(MINI_BATCH)
        linear = Backbone.of(model).layers[-1].get_submodule("output.dense")
        seen: list[torch.dtype] = []
        linear.register_forward_hook(lambda _m, _a, output, seen=seen: seen.append(output.dtype))
        results.append(step(model, objective, sentences, bf16=True))
        kinds.append(seen)
    (loss, found), (expected, wanted) = results
    assert loss == expected
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():  # summed over mini-batches in another order
        largest = gradient.abs().max().item()
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-5 * largest)
    assert len(kinds[0]) > len(kinds[1]), "nothing was computed again"
    assert {*kinds[0], *kinds[1]} == {torch.bfloat16}


@pytest.mark.parametrize(("case", "copy"), [("adcse", "follower.followed_model"), ("ct", "second_encoder")])
def test_copies_encode_in_mini_batches_too(
    case: str, copy: str, made: Callable[..., Any], sentences: list[str]
) -> None:
    model, objective = made(case)
    objective.use_mini_batches(MINI_BATCH)
    passes = Passes(objective.get_submodule(copy), all_passes=True)
    objective([dict(model.preprocess(sentences))])
    assert sum(passes.rows) == len(sentences)
    assert 1 < max(passes.rows) <= MINI_BATCH


def test_random_states_and_modes_are_restored(made: Callable[..., Any], sentences: list[str]) -> None:
    model, objective = made("simcse")
    objective.use_mini_batches(MINI_BATCH)
    loss = objective([dict(model.preprocess(sentences))])["contrastive"]
    model.eval()  # as after a forward pass with dropout off
    state = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in model.modules())


def test_a_backward_pass_inside_a_perturbation_applies_it_once(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model().double()
    slopes, weights = [], torch.randn(16, dtype=torch.float64)
    for size in (None, MINI_BATCH):
        encoder = Encoder(model, mini_batch_size=size)
        features = encoder.tokenise(sentences)
        delta = torch.randn(*features["input_ids"].shape, 16, generator=torch.Generator().manual_seed(0)).double()
        delta.requires_grad_()
        with encoder.perturbed(delta=delta):
            vectors = encoder.encode(features)
            slopes.append(torch.autograd.grad((vectors * weights).sum(), delta)[0])
    torch.testing.assert_close(*slopes)
    assert slopes[0].abs().max() > 1e-3


def test_activations_are_kept_of_no_more_than_the_vectors(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    kept = {}
    for size in (None, MINI_BATCH):
        model = make_encoder_model().train()
        objective = SimCSE(model)
        if size is not None:
            objective.use_mini_batches(size)
        parameters = {parameter.data_ptr() for parameter in objective.parameters()}
        held: dict[int, int] = {}

        def keep(tensor: torch.Tensor, held: dict[int, int] = held) -> torch.Tensor:
            held[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            objective([dict(model.preprocess(sentences))])
        kept[size] = sum(size for place, size in held.items() if place not in parameters)
    assert kept[MINI_BATCH] < 0.35 * kept[None]


@pytest.mark.parametrize("sides", ["left", "both"])
def test_rows_that_begin_with_padding_are_split_too(
    sides: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model(pooling="mean").double()
    model.tokenizer.padding_side = "left"
    features = dict(model.preprocess(sentences))
    assert not features["attention_mask"][:, 0].all()
    if sides == "both":
        tensors = {name: value for name, value in features.items() if isinstance(value, torch.Tensor)}
        features = {name: torch.nn.functional.pad(value, (1, 1)) for name, value in tensors.items()}
    passes = Passes(model, all_passes=True)
    vectors = Encoder(model, mini_batch_size=MINI_BATCH, length_groups=2).encode(features)
    assert passes.rows == [3, 3, 2]
    torch.testing.assert_close(vectors, Encoder(model).encode(features))
