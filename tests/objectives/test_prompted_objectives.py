"""With a prompt, objectives encode what is encoded in use, and perturb, weaken and change only the text after it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from holdfast.adversary.balls import sentence_norm
from holdfast.adversary.geometry import Words
from holdfast.adversary.gradient_encoder import GradientEncoder, recovered_texts, with_texts
from holdfast.adversary.momentum import MomentumEncoder
from holdfast.encoder import Encoder
from holdfast.models import load_sentence_transformer
from holdfast.objectives.adcl import ADCL
from holdfast.objectives.anchored import Anchored
from holdfast.objectives.combined import Combined
from holdfast.objectives.consert import ConSERT
from holdfast.objectives.l2p_csr import L2PCSR
from holdfast.objectives.robustembed import RobustEmbed
from holdfast.objectives.v_advcse import VAdvCSE
from holdfast.prompt_tokens import added_tokens, text_mask
from holdfast.text_prompts import PromptOptions

TEXTS = [
    "the man runs in the park",
    "a dog sleeps",
    "the woman sings under the house",
    "child plays on the big red bed",
]
BEFORE = 3  # [CLS] the old


@pytest.fixture(params=[True, False])
def folder(request: pytest.FixtureRequest, prompted: Callable[..., Path]) -> Path:
    """A model with prompts, whose pooling takes them in or leaves them out."""
    return prompted(include=request.param)


@pytest.fixture
def model(folder: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(folder), device="cpu", prompts=PromptOptions(prompt_name="query"))


@pytest.fixture
def batch(model: SentenceTransformer) -> dict[str, Any]:
    return Encoder(model).tokenise(TEXTS)


def vectors_in_use(folder: Path, texts: list[str] = TEXTS) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(texts, prompt_name="query")


def prompt_embeddings(encoder: Encoder, batch: dict[str, Any], **perturbation: Any) -> torch.Tensor:
    """What enters the first layer at the tokens up to the end of the prompt."""
    found: list[torch.Tensor] = []
    layer = encoder.backbone.layers[0]
    handle = layer.register_forward_pre_hook(lambda _, args: found.append(args[0].detach()))
    with torch.no_grad(), encoder.perturbed(**perturbation):
        encoder.encode(batch)
    handle.remove()
    return found[0]


def test_training_vectors_are_those_in_use(folder: Path, model: SentenceTransformer, batch: dict[str, Any]) -> None:
    model.eval()
    with torch.no_grad():
        vectors = Encoder(model).encode(batch).numpy()
    np.testing.assert_allclose(vectors, vectors_in_use(folder), atol=1e-5)
    copies = Anchored(model).original, MomentumEncoder(model, torch.nn.Identity(), momentum=0.9).eval().followed_model
    for each in copies:
        with torch.no_grad():
            np.testing.assert_allclose(Encoder(each).encode(batch), vectors_in_use(folder), atol=1e-5)


def test_the_mask_leaves_out_the_prompt(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    mask = text_mask(model, batch)
    expected = batch["attention_mask"].clone()
    expected[:, :BEFORE] = 0
    assert mask.tolist() == expected.tolist()
    assert batch["input_ids"][:, 1:BEFORE].tolist() == [model.tokenizer.convert_tokens_to_ids(["the", "old"])] * 4
    without = dict(model.preprocess(TEXTS))
    assert text_mask(model, without) is without["attention_mask"]
    assert added_tokens(model) == 2


def test_a_space_that_joins_the_first_word_is_text(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    """SentencePiece and byte-level tokenisers give the prompt's last space a token only if nothing follows it."""
    alone = batch["input_ids"][0].clone()
    alone[BEFORE] = 1
    inner = model.preprocess
    model.preprocess = lambda texts, **named: {"input_ids": alone[None], "prompt_length": BEFORE + 1}  # type: ignore
    mask = text_mask(model, {**batch, "prompt_length": BEFORE + 1})
    model.preprocess = inner  # type: ignore[method-assign]
    assert mask[:, :BEFORE].sum() == 0
    assert mask[:, BEFORE].all()


def test_a_prompt_of_another_trainer_counts_by_its_length(model: SentenceTransformer) -> None:
    other = dict(model.preprocess(TEXTS, prompt="a big red "))
    assert other["prompt_length"] == 4
    assert text_mask(model, other)[:, :4].sum() == 0
    assert text_mask(model, other)[:, 4].all()


def test_left_padding(model: SentenceTransformer) -> None:
    model.tokenizer.padding_side = "left"
    padded = dict(model.preprocess(TEXTS, prompt="the old "))
    mask = text_mask(model, padded)
    lengths = padded["attention_mask"].sum(dim=1)
    assert (lengths != lengths[0]).any()
    for row, length in zip(mask, lengths, strict=True):
        assert row.sum() == length - BEFORE
        assert row[len(row) - int(length) : len(row) - int(length) + BEFORE].sum() == 0


def test_perturbations_do_not_reach_the_prompt(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    encoder = Encoder(model.eval(), length_groups=1)
    plain = prompt_embeddings(encoder, batch)
    shape = plain.shape
    zeros = torch.zeros(shape)
    everywhere = {
        "delta": torch.ones(shape),
        "tensor": [zeros],
        "bool": [zeros[..., :1].bool()],
        "pair": [(zeros[..., :1], zeros[:, :1])],
    }
    for name, value in everywhere.items():
        given = {"delta": value} if name == "delta" else {"weakening": value}
        found = prompt_embeddings(encoder, batch, **given)
        assert torch.equal(found[:, :BEFORE], plain[:, :BEFORE]), name
        assert (found[:, BEFORE] != plain[:, BEFORE]).any(dim=-1).all(), name


def anchored_delta(model: SentenceTransformer, batch: dict[str, Any]) -> tuple[torch.Tensor, float, str]:
    objective = Anchored(model, adversarial=1.0, radius=1e-2)
    encoder = objective.encoder
    with torch.no_grad():
        anchors = encoder.encode(batch)
    x = encoder.embed(batch).detach()
    return objective.attack(encoder, batch, x, anchors), 1e-2, "2"


def robustembed_delta(model: SentenceTransformer, batch: dict[str, Any]) -> tuple[torch.Tensor, float, str]:
    objective = RobustEmbed(model, radius=1e-2)
    encoder = objective.encoder
    x = encoder.embed(batch).detach()
    z = objective.head(encoder.encode(batch)).detach()
    return objective.attack(encoder, batch, x, z), 1e-2, "inf"


def v_advcse_delta(model: SentenceTransformer, batch: dict[str, Any]) -> tuple[torch.Tensor, float, str]:
    objective = VAdvCSE(model, space="token")
    encoder = objective.encoder
    x = encoder.embed(batch).detach()
    z, (statistics, *_) = objective.head.with_statistics(encoder.encode(batch), views=1)
    r = objective.attack(encoder, batch, x, z.detach(), statistics)
    return r, 0.0, objective.adversary.norm


def consert_delta(model: SentenceTransformer, batch: dict[str, Any]) -> tuple[torch.Tensor, float, str]:
    objective = ConSERT(model, first_view="adversarial", radius=1e-2)
    encoder = objective.encoder
    x = encoder.backbone.embed(batch).detach()
    z = objective.head(encoder.encode(batch)).detach().roll(1, 0)
    delta, _ = objective.attack(encoder, batch, x, z)
    return delta, 1e-2, "2"


def l2p_delta(model: SentenceTransformer, batch: dict[str, Any]) -> tuple[torch.Tensor, float, str]:
    objective = L2PCSR(model, noise="embedding", layers=2)
    encoder = objective.encoder
    x = encoder.embed(batch, views=2).detach()
    found, _ = objective._learn_noise(encoder, batch, x, None)
    return found["delta"], 0.0, "2"


@pytest.mark.parametrize("attack", [anchored_delta, robustembed_delta, v_advcse_delta, consert_delta, l2p_delta])
def test_delta_is_zero_on_the_prompt(attack: Any, model: SentenceTransformer, batch: dict[str, Any]) -> None:
    torch.manual_seed(0)
    delta, radius, norm = attack(model, batch)
    assert delta[:, :BEFORE].abs().sum() == 0
    assert (delta[:, BEFORE].abs().sum(dim=-1) > 0).all()
    if radius:  # the norm is over the text's tokens: the ball is reached with them alone
        text = text_mask(model, batch).to(delta.dtype)
        norms = sentence_norm(delta, text, norm)
        assert (norms <= radius * 1.0001).all()
        assert (norms > radius / 3).all()


def test_combined_leaves_the_prompt_alone(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    torch.manual_seed(0)
    objective = Combined(model, adversarial_positive=True, weakening=True, weakening_layers=2)
    seen: list[dict[str, Any]] = []
    inner = Encoder.perturbed

    def spy(self: Encoder, **given: Any) -> Any:
        seen.append(given)
        return inner(self, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "perturbed", spy)
        objective([batch])
    deltas = [given["delta"] for given in seen if given.get("delta") is not None]
    masks = [token for given in seen for token, _ in given.get("weakening") or []]
    assert deltas[-1][:, :BEFORE].abs().sum() == 0
    assert deltas[-1][:, BEFORE].abs().sum() > 0
    assert masks
    assert all((token[:, :BEFORE] == 0.5).all() for token in masks)  # half of the mask of 1


def test_weakening_is_one_on_the_prompt(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    torch.manual_seed(0)
    objective = L2PCSR(model.train(), layers=2, threshold=0.7)
    tokens = objective.masks(objective.encoder, batch).tokens
    assert tokens is not None
    assert (tokens[:, :, :BEFORE] == 1).all()
    assert (tokens[:, :, BEFORE:] == 0).any()


@pytest.mark.parametrize("view", ["shuffle", "token-cutoff"])
def test_views_leave_the_prompt_alone(view: Any, model: SentenceTransformer, batch: dict[str, Any]) -> None:
    torch.manual_seed(0)
    objective = ConSERT(model, first_view=view, token_cutoff=0.5)
    features, keep = objective._augmented(objective.encoder, batch, 0)
    assert torch.equal(features["input_ids"][:, :BEFORE], batch["input_ids"][:, :BEFORE])
    if keep is None:
        assert not torch.equal(features["input_ids"], batch["input_ids"])
    else:
        assert keep[:, :BEFORE].all()
        assert (~keep).squeeze(-1).sum(dim=1).tolist() == (text_mask(model, batch).sum(dim=1) // 2).tolist()


def test_texts_are_recovered_and_put_back_after_the_prompt(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    assert recovered_texts(model, batch) == TEXTS
    changed = with_texts(model, batch, {1: "a cat sings in the house"})
    assert recovered_texts(model, changed) == [TEXTS[0], "a cat sings in the house", *TEXTS[2:]]
    again = Encoder(model).tokenise([TEXTS[0], "a cat sings in the house", *TEXTS[2:]])
    assert all(torch.equal(changed[name], again[name]) for name in ("input_ids", "attention_mask"))
    assert changed["prompt_length"] == batch["prompt_length"] == BEFORE


def test_edits_are_in_the_text(model: SentenceTransformer, batch: dict[str, Any]) -> None:
    torch.manual_seed(0)
    objective = Anchored(model, share=1.0, forms="both")
    drawn: list[str | None] = []
    inner = objective.random_edits.of
    object.__setattr__(
        objective,
        "random_edits",
        type("Spy", (), {"of": lambda _, text, rng: drawn.append(text) or inner(text, rng)})(),
    )
    with torch.no_grad():
        anchors = objective.encoder.encode(batch)
    features, _ = objective.changed(objective.encoder, batch, anchors)
    assert set(drawn) == set(TEXTS)  # what is mistyped has no prompt
    assert torch.equal(features["input_ids"][:, :BEFORE], batch["input_ids"][:, :BEFORE])
    assert not torch.equal(features["input_ids"][:, BEFORE:][:, :5], batch["input_ids"][:, BEFORE:][:, :5])
    assert float(objective.diagnostics["unchanged"]) == 0.0


def test_exchanged_words_are_in_the_text(
    model: SentenceTransformer, batch: dict[str, Any], tmp_path: Path, make_masked_lm: Callable[..., Path]
) -> None:
    objective = ADCL(
        model,
        source="masked-lm",
        masked_lm=str(make_masked_lm(tmp_path / "fills")),
        min_similarity=-1.0,
        max_share=1.0,
        queue_size=8,
    )
    texts: list[str] = []
    inner = objective.attack_texts

    def spy(encoder: Encoder, given: Any, *more: Any) -> Any:
        texts.extend(given)
        return inner(encoder, given, *more)

    objective.attack_texts = spy  # type: ignore[method-assign]
    with torch.no_grad():
        keys = objective.follower.keys(batch)
        objective.queue.push(keys.roll(1, 0), torch.zeros(4, 1, dtype=torch.long))
    positives = objective.hard_positives(objective.encoder, batch, keys)
    assert texts == TEXTS
    assert torch.equal(positives["input_ids"][:, :BEFORE], batch["input_ids"][:, :BEFORE])
    assert float(objective.diagnostics["replaced_words"]) > 0


def test_gradients_of_words_are_those_of_the_text(folder: Path, model: SentenceTransformer) -> None:
    encoder = Encoder(model.eval())
    gradient = GradientEncoder(encoder, lambda vectors: vectors, lambda z, rows: z.square().sum())
    with encoder.attack_mode():
        found = gradient.gradients(TEXTS, range(4))
        vectors = gradient.vectors(TEXTS, range(4))
    np.testing.assert_allclose(found.z, vectors_in_use(folder), atol=1e-5)
    np.testing.assert_allclose(vectors, vectors_in_use(folder), atol=1e-5)
    words = Words.of(TEXTS[0])
    spans = list(found.offsets[0])
    assert spans[:BEFORE] == [(0, 0)] * BEFORE
    assert spans[BEFORE : BEFORE + len(words.words)] == list(words.spans)


@pytest.mark.parametrize("kind", [Anchored, ADCL, L2PCSR, RobustEmbed, VAdvCSE, ConSERT, Combined])
def test_every_objective_has_a_finite_loss_and_gradient(
    kind: Any, model: SentenceTransformer, batch: dict[str, Any], tmp_path: Path, make_masked_lm: Callable[..., Path]
) -> None:
    options = {"masked_lm": str(make_masked_lm(tmp_path / "fills")), "queue_size": 8} if kind is ADCL else {}
    options |= {"layers": 2} if kind is L2PCSR else {}
    before = copy.deepcopy(model.prompts), model.default_prompt_name
    torch.manual_seed(0)
    objective = kind(model.train(), **options)
    if kind is ADCL:  # while its queue is empty the loss is constant
        objective.queue.push(torch.randn(4, 128), torch.zeros(4, 1, dtype=torch.long))
    loss = sum(objective([batch]).values())
    assert torch.isfinite(loss)
    loss.backward()
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    assert (model.prompts, model.default_prompt_name) == before
