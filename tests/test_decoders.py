"""Decoders as encoders of sentences: padding on either side, their pooling, their dropout, and what they cannot do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, LlamaConfig

from architectures import save_transformer
from holdfast.adversary.gradient_encoder import GradientEncoder
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.backbone import Backbone
from holdfast.backbone_dropout import dropout_of, has_dropout
from holdfast.encoder import Encoder
from holdfast.encoding import encode_sentences
from holdfast.errors import Notice, UserError
from holdfast.models import load_sentence_transformer, read_as
from holdfast.pretraining.model import continued_model

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def aligned(delta: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Values (B, L, d) of the tokens of each row, moved to where the row has its tokens."""
    moved = torch.zeros(*mask.shape, delta.shape[2], dtype=delta.dtype)
    for row, kept in enumerate(mask.bool()):
        moved[row, kept] = delta[row, : int(kept.sum())]
    return moved


@pytest.mark.parametrize(("pooling", "attention"), [("lasttoken", "sdpa"), ("mean", "eager")])
def test_padding_changes_nothing(
    decoder: str, pooling: str, attention: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    """A text has the same vector, and its gradient at the embeddings, alone and in a batch padded on either side."""
    values = torch.randn(len(sentences), 64, 16, generator=torch.Generator().manual_seed(3))
    alone, found = None, {}
    for side in SIDES:
        model = make_encoder_model(decoder, pooling=pooling, padding=side)
        model.transformers_model.set_attn_implementation(attention)
        encoder = Encoder(model, length_groups=1)
        features = encoder.tokenise(sentences)
        mask = features["attention_mask"]
        assert bool(mask[:, 0].all()) is (side == "right")
        delta = aligned(values[:, : mask.shape[1]], mask).requires_grad_()
        with encoder.perturbed(delta=delta):
            vectors = encoder.encode(features)
        gradient = torch.autograd.grad((vectors * torch.arange(16.0)).sum(), delta)[0]
        assert (gradient[mask == 0] == 0).all()
        found[side] = vectors.detach(), gradient[mask == 1]
        if alone is None:
            rows = []
            for row, sentence in enumerate(sentences):
                single = encoder.tokenise([sentence])
                with encoder.perturbed(delta=values[row : row + 1, : single["attention_mask"].shape[1]]):
                    rows.append(encoder.encode(single).detach())
            alone = torch.cat(rows)
    for vectors, _ in found.values():
        torch.testing.assert_close(vectors, alone, rtol=1e-4, atol=2e-5)
    torch.testing.assert_close(found["left"][1], found["right"][1], rtol=1e-3, atol=1e-3)
    assert alone.std(dim=0).max() > 0.05, "vectors that are all alike would prove nothing"


@pytest.mark.parametrize("padding", SIDES)
def test_one_batch_equals_many(
    decoder: str, padding: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    """Length groups, and batches of a few rows, give the vectors of sentence-transformers in one batch."""
    model = make_encoder_model(decoder, padding=padding)
    expected = torch.tensor(model.encode(sentences))
    for groups in (1, 4):
        encoder = Encoder(model, length_groups=groups)
        whole = encoder.encode(encoder.tokenise(sentences))
        parts = [encoder.encode(encoder.tokenise(sentences[i : i + 3])) for i in range(0, len(sentences), 3)]
        torch.testing.assert_close(whole, expected, rtol=1e-5, atol=2e-5)
        torch.testing.assert_close(torch.cat(parts), expected, rtol=1e-5, atol=2e-5)
    torch.testing.assert_close(torch.tensor(encode_sentences(model, sentences)), expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_left_padding_moves_no_position_of_a_table(
    kind: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    """A row that begins with padding gets the positions of its tokens; RoBERTa's begin after that of padding."""
    model = make_encoder_model(kind, pooling="mean")
    alone = torch.cat([Encoder(model).encode(Encoder(model).tokenise([each])) for each in sentences])
    model.tokenizer.padding_side = "left"
    for groups in (1, 4):
        encoder = Encoder(model, length_groups=groups)
        features = encoder.tokenise(sentences)
        assert not features["attention_mask"][:, 0].all()
        torch.testing.assert_close(encoder.encode(features, views=2), torch.cat([alone] * 2), rtol=1e-4, atol=2e-5)
        with encoder.recording() as recording:
            encoder.encode(features)
        torch.testing.assert_close(recording.embeddings, encoder.embed(features))


def test_prompts_are_not_perturbed_behind_left_padding(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model("qwen3")
    model.prompts, model.default_prompt_name = {"query": "the old "}, "query"
    encoder = Encoder(model, length_groups=1)
    features = encoder.tokenise(sentences)
    text = encoder.text_mask(features).bool()
    assert not features["attention_mask"][:, 0].all()
    read = [
        model.tokenizer.decode(ids[kept], skip_special_tokens=True).strip()
        for ids, kept in zip(features["input_ids"], text, strict=True)
    ]
    assert read == sentences
    entered: list[torch.Tensor] = []
    encoder.backbone.layers[0].register_forward_pre_hook(lambda _module, args: entered.append(args[0]))
    encoder.encode(features)
    with encoder.perturbed(delta=torch.ones(*text.shape, 16), weakening=[torch.full((1, 1, 16), 2.0)]):
        encoder.encode(features)
    torch.testing.assert_close(entered[1], torch.where(text[..., None], 2 * (entered[0] + 1), entered[0]))


def test_gradients_are_in_the_order_of_the_tokens(make_encoder_model: Callable[..., Any], sentences: list[str]) -> None:
    """The Geometry Attack finds the words of a text by the offsets of its tokens, which have no padding."""
    found = {}
    for side in SIDES:
        encoder = Encoder(make_encoder_model("llama", padding=side))
        model = GradientEncoder(encoder, torch.nn.Identity(), lambda z, _: (z * torch.arange(16.0)).sum())
        with encoder.attack_mode():
            found[side] = model.gradients(sentences, range(len(sentences)))
    for row, spans in enumerate(found["left"].offsets):
        tokens = [found[side].tokens[row, : len(spans)] for side in SIDES]
        torch.testing.assert_close(*tokens, rtol=1e-3, atol=1e-3)
        assert (tokens[0].abs().amax(dim=-1) > 0).all()


# --- reading -----------------------------------------------------------------------------------------------------


def saved(folder: Path, kind: str, head: bool = False) -> Path:
    """The folder of a raw decoder, with the head of a language model or without."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    save_transformer(folder / "base", kind)
    if not head:
        return folder / "base"
    AutoTokenizer.from_pretrained(folder / "base").save_pretrained(folder / "head")
    AutoModelForCausalLM.from_pretrained(folder / "base").save_pretrained(folder / "head")
    return folder / "head"


@pytest.mark.parametrize(("kind", "pooling"), [("qwen3", "lasttoken"), ("gemma3-bidirectional", "mean")])
def test_a_raw_decoder_is_pooled_where_it_sees_the_text(
    kind: str, pooling: str, tmp_path: Path, sentences: list[str]
) -> None:
    model = load_sentence_transformer(str(saved(tmp_path, kind)), device="cpu")
    assert model[1].pooling_mode == pooling
    assert read_as(model) == {}
    assert encode_sentences(model, sentences).std(axis=0).max() > 0.05


def test_the_head_of_a_causal_model_is_left_out_in_silence(tmp_path: Path, sentences: list[str]) -> None:
    with_head, plain = saved(tmp_path / "a", "llama", head=True), saved(tmp_path / "b", "llama")
    model, other = (load_sentence_transformer(str(folder), device="cpu") for folder in (with_head, plain))
    assert read_as(model) == {}
    assert (encode_sentences(model, sentences) == encode_sentences(other, sentences)).all()


def test_first_token_of_a_causal_model_is_refused(tmp_path: Path) -> None:
    folder = str(saved(tmp_path, "mistral"))
    with pytest.raises(UserError, match="causal model, whose first token sees no other: use --pooling lasttoken"):
        load_sentence_transformer(folder, pooling="cls", device="cpu")
    with pytest.raises(UserError, match="prompt pooling needs a mask token"):
        load_sentence_transformer(folder, pooling="prompt", device="cpu")
    assert load_sentence_transformer(folder, pooling="mean", device="cpu")[1].pooling_mode == "mean"


def test_a_causal_model_fills_no_masks(tmp_path: Path) -> None:
    folder = saved(tmp_path, "qwen3", head=True)
    with pytest.raises(UserError, match="is a qwen3 model, which fills no masks: name a masked language model"):
        MaskedLM(str(folder))
    with pytest.raises(UserError, match="is a qwen3 model, which has no masked-LM head"):
        continued_model(str(folder), None, 32)


# --- dropout -----------------------------------------------------------------------------------------------------


def test_dropout_of_a_decoder_is_set_and_restored(
    decoder: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model(decoder).train()
    encoder = Encoder(model)
    features = encoder.tokenise(sentences)
    assert not has_dropout(model)
    for attention in ("eager", "sdpa"):
        model.transformers_model.set_attn_implementation(attention)
        with dropout_of(model, 0.3):
            assert has_dropout(model)
            first, second = encoder.encode(features, views=2).chunk(2)
        assert (first - second).abs().max() > 1e-2
    first, second = encoder.encode(features, views=2).chunk(2)
    assert (first - second).abs().max() < 1e-4
    assert not has_dropout(model)


def test_dropout_of_an_encoder_is_found(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("bert")
    assert has_dropout(model)
    with dropout_of(model, 0.0):
        assert not has_dropout(model)
    with dropout_of(model, None):
        assert has_dropout(model)


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("granite", "changes its embeddings, outside any module"),
        ("opt", "changes its embeddings, outside any module"),
        ("t5", r"gives its embeddings to the first layer \(model.encoder.dropout\) runs again elsewhere"),
        ("xlm", "no single list of layers"),
        ("longformer", "takes no rows of token vectors"),
    ],
)
def test_other_structures_are_refused_with_the_reason(
    kind: str, reason: str, make_encoder_model: Callable[..., SentenceTransformer]
) -> None:
    from transformers import CONFIG_MAPPING, AutoModel, T5EncoderModel

    size: dict[str, Any] = {"vocab_size": 30}
    if kind != "t5":
        size |= {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    size |= {"granite": {"embedding_multiplier": 2.0, "intermediate_size": 32}}.get(kind, {})
    size |= {"opt": {"ffn_dim": 32, "word_embed_proj_dim": 16}}.get(kind, {})
    size |= {"xlm": {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "n_words": 30}}.get(kind, {})
    size |= {"longformer": {"intermediate_size": 32, "attention_window": 8}}.get(kind, {})
    model: Any = make_encoder_model("bert")
    size |= {"t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}}.get(kind, {})
    config = CONFIG_MAPPING[kind](**size)
    model[0].model = (T5EncoderModel(config) if kind == "t5" else AutoModel.from_config(config)).eval()
    with pytest.raises(UserError, match=f"backbone '{kind}' is not supported: .*{reason}"):
        Backbone.of(model)


def test_parts_are_found_again_after_they_were_renamed(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("qwen3")
    before = Backbone.of(model)

    class Wrapped(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner, self.config = inner, inner.config

        def forward(self, **given: Any) -> Any:
            return self.inner(**given)

    model[0].model = Wrapped(model[0].model)
    after = Backbone.of(model)
    assert after.layers is before.layers
    assert after.embedding is before.embedding


def test_without_a_padding_token_the_end_token_pads(tmp_path: Path, sentences: list[str]) -> None:
    save_transformer(tmp_path / "model", "llama")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    tokenizer.pad_token = None  # as GPT-2 comes
    tokenizer.save_pretrained(tmp_path / "model")
    config = LlamaConfig.from_pretrained(tmp_path / "model")
    config.pad_token_id = None
    config.save_pretrained(tmp_path / "model")
    with pytest.warns(Notice, match="no padding token: padded with its end token '<eos>'"):
        model = load_sentence_transformer(str(tmp_path / "model"), device="cpu")
    together = encode_sentences(model, sentences)
    alone = np.concatenate([encode_sentences(model, [sentence]) for sentence in sentences])
    np.testing.assert_allclose(together, alone, atol=1e-5)
