"""Limits of a model's input: found by structure and tried out, and a count of the texts that are cut."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as t
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.attacks.classifier import load_classifier, tokenise
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.input_limits import (
    UNLIMITED,
    Cuts,
    count_cut,
    count_tokens,
    cut_line,
    cut_lines,
    input_limit,
    input_protocol,
    limited_to,
    lowered,
    lowered_line,
    set_limit,
    token_limit,
)
from holdfast.models import load_sentence_transformer

SHAPE: dict[str, Any] = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SHAPE |= {"intermediate_size": 32, "max_position_embeddings": 20, "pad_token_id": 1}
DEBERTA: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
GPT2: dict[str, Any] = {"vocab_size": 30, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 20}
BART: dict[str, Any] = {"vocab_size": 30, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
BART |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 20}
NYSTROM: dict[str, Any] = {"num_landmarks": 2, "segment_means_seq_len": 2, "conv_kernel_size": 3}
# With absolute positions, and how many of 20 are a text's.
ABSOLUTE = [
    (t.BertConfig(**SHAPE), 20),
    (t.RobertaConfig(**SHAPE), 18),
    (t.XLMRobertaConfig(**SHAPE), 18),
    (t.CamembertConfig(**SHAPE), 18),
    (t.MPNetConfig(**SHAPE), 18),
    (t.EsmConfig(**SHAPE, position_embedding_type="absolute", mask_token_id=4), 18),
    (t.GPT2Config(**GPT2), 20),
    (t.BartConfig(**BART), 20),
    (t.DistilBertConfig(vocab_size=30, dim=16, n_layers=1, n_heads=2, hidden_dim=32, max_position_embeddings=20), 20),
]
RELATIVE = [
    t.DebertaV2Config(**DEBERTA, **SHAPE),
    t.ModernBertConfig(**SHAPE),
    t.T5Config(vocab_size=30, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2),
]


def unlimited(limit: float | None = 10**30) -> SimpleNamespace:
    return SimpleNamespace(model_max_length=limit)


@pytest.mark.parametrize(("config", "limit"), ABSOLUTE, ids=lambda value: getattr(value, "model_type", None))
def test_a_table_of_positions_is_never_left(config: Any, limit: int) -> None:
    model = t.AutoModel.from_config(config).eval()
    assert token_limit(unlimited(), model) == token_limit(unlimited(1000), model) == limit
    assert token_limit(unlimited(7), model) == 7
    rows = torch.full((1, limit + 1), 7)
    model(input_ids=rows[:, :limit])
    with pytest.raises((IndexError, RuntimeError)):  # what the limit is there for
        model(input_ids=rows)


@pytest.mark.parametrize("config", RELATIVE, ids=lambda config: config.model_type)
def test_relative_positions_set_no_limit(config: Any) -> None:
    model = t.AutoModel.from_config(config).eval()
    assert token_limit(unlimited(1000), model) == 1000, "what the tokeniser says"
    assert token_limit(unlimited(), model) == getattr(config, "max_position_embeddings", UNLIMITED), "or the config"


def test_a_table_of_more_rows_than_the_model_takes() -> None:
    """Nystroemformer's has two spare ones, without padding among them."""
    model = t.AutoModel.from_config(t.NystromformerConfig(**SHAPE, **NYSTROM))
    assert model.embeddings.position_embeddings.num_embeddings == 22
    assert token_limit(unlimited(), model) == token_limit(unlimited(1000), model) == 20


@pytest.mark.parametrize("said", [None, math.inf, 10**30])
@pytest.mark.parametrize("config", [SimpleNamespace(), SimpleNamespace(max_position_embeddings=-1), None])
def test_no_limit_at_all(said: float | None, config: Any) -> None:
    model = torch.nn.Linear(1, 1)
    model.config = config
    assert token_limit(unlimited(said), model) == UNLIMITED


# --- models as they are loaded -----------------------------------------------------------------------------------


@pytest.fixture
def saved(make_encoder_model: Callable[..., SentenceTransformer], tmp_path: Path) -> Callable[..., Path]:
    """``saved(kind="bert", limit=48)``: an encoder in a folder, whose length limit is ``limit`` and 64 positions."""

    def save(kind: str = "bert", limit: Any = 48) -> Path:
        folder = tmp_path / kind
        make_encoder_model(kind).save(str(folder))
        for path, name in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", None)):
            message = json.loads((folder / path).read_text())
            message[name or "model_max_length"] = limit
            (folder / path).write_text(json.dumps(message))
        return folder

    return save


@pytest.mark.parametrize(("kind", "limit"), [("bert", 64), ("roberta", 63), ("mpnet", 62)])
def test_an_encoder_reads_as_far_as_its_positions_go(saved: Callable[..., Path], kind: str, limit: int) -> None:
    """Padding is number 0 here, so that RoBERTa's positions begin at 1, and MPNet's at 2 whatever padding is."""
    model = load_sentence_transformer(str(saved(kind, 512)), device="cpu")
    assert input_limit(model) == limit
    texts = ["dog " * 500, "dog " * (limit - 2), "dog " * (limit - 1)]
    cuts = Cuts()
    vectors = encode_sentences(model, texts, cuts=cuts)
    np.testing.assert_allclose(vectors, vectors[[1, 1, 1]], atol=1e-5)
    assert (cuts.texts, cuts.of, cuts.tokens, cuts.read, cuts.lost) == (2, 3, limit, 3 * limit, 502 - limit + 1)


@pytest.mark.parametrize("limit", [48, 10])
def test_a_smaller_limit_stays(saved: Callable[..., Path], limit: int) -> None:
    assert input_limit(load_sentence_transformer(str(saved("roberta", limit)), device="cpu")) == limit


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (2, "takes 2 tokens, and its tokeniser adds 2 special tokens: no word of a text fits"),
        (0, "its length limit is 0: set max_seq_length to a number of tokens"),
        (-4, "its length limit is -4"),
        ("long", "its length limit is 'long'"),
    ],
)
def test_a_limit_that_leaves_nothing_is_refused(saved: Callable[..., Path], limit: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_sentence_transformer(str(saved("bert", limit)), device="cpu")


def test_a_classifier_without_room_for_a_word_is_refused(make_masked_lm: Callable[..., Path], tmp_path: Path) -> None:
    lm = make_masked_lm(tmp_path / "lm", max_positions=2)
    t.AutoModelForSequenceClassification.from_config(t.AutoConfig.from_pretrained(lm)).save_pretrained(tmp_path / "c")
    t.AutoTokenizer.from_pretrained(lm).save_pretrained(tmp_path / "c")
    for load, folder in ((load_classifier, tmp_path / "c"), (MaskedLM, lm)):
        with pytest.raises(UserError, match="takes 2 tokens, and its tokeniser adds 2"):
            load(str(folder))


@pytest.mark.parametrize("width", [0, -1, "8", 2.5])
def test_a_width_that_is_none_is_refused(saved: Callable[..., Path], width: Any) -> None:
    folder = saved()
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "truncate_dim": width}))
    with pytest.raises(UserError, match=r"truncate_dim is .* not a width"):
        load_sentence_transformer(str(folder), device="cpu")


def test_without_a_padding_token_nothing_is_loaded(
    saved: Callable[..., Path], make_masked_lm: Callable[..., Path], tmp_path: Path
) -> None:
    from holdfast.classifiers.initial_model import new_classifier

    def without_padding(folder: Path, token: str | None = None) -> str:
        path = folder / "tokenizer_config.json"
        message = {**json.loads(path.read_text()), "pad_token": token}
        if token is None:
            message["added_tokens_decoder"] = {}
        path.write_text(json.dumps(message))
        return str(folder)

    lm = make_masked_lm(tmp_path / "lm")
    config = t.AutoConfig.from_pretrained(lm)
    t.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "classifier")
    t.AutoTokenizer.from_pretrained(lm).save_pretrained(tmp_path / "classifier")
    material: Any = SimpleNamespace(classes=["a", "b"], regression=False, task="mine", takes_pairs=False)
    loaders: list[tuple[Path, Callable[[str], object]]] = [
        (saved(), lambda name: load_sentence_transformer(name, device="cpu")),
        (lm, MaskedLM),
        (lm, lambda name: new_classifier(name, material, 8)),
        (tmp_path / "classifier", lambda name: load_classifier(name, device="cpu")),
    ]
    for token, message in (
        (None, "has no padding token: set one in"),
        ("[NEW]", r"padding token '\[NEW\]' is number \d+, and the model"),
    ):
        for folder, load in loaders:
            with pytest.raises(UserError, match=message):
                load(without_padding(folder, token))
    for folder, load in loaders:
        tokenizer = t.AutoTokenizer.from_pretrained(folder, pad_token="[PAD]")
        tokenizer.add_tokens([f"new{n}" for n in range(20)])  # it came with [NEW] besides
        tokenizer.save_pretrained(folder)
        with pytest.raises(UserError, match=r"token 'new19' is number \d+, and the model has embeddings for"):
            load(str(folder))


# --- limits for a while ------------------------------------------------------------------------------------------


@pytest.fixture
def static() -> SentenceTransformer:
    """Static word vectors, which have no limit that could be set."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "dog": 1, "cat": 2}, unk_token="[UNK]"))
    return SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)], device="cpu")


def test_static_vectors_have_no_limit(static: SentenceTransformer) -> None:
    assert input_limit(static) is None
    assert input_protocol(static) == {"max_seq_length": None, "dimensions": 4}
    set_limit(static, 5)
    with limited_to(static, 5):
        assert input_limit(static) is None
    cuts = Cuts()
    encode_sentences(static, ["dog", "cat dog " * 5000, "dog"], cuts=cuts)
    assert cuts.record() == {"texts": 0, "of": 2, "tokens": None, "lost_percent": 0.0}
    assert count_cut(static.tokenizer, ["dog " * 5000], None).record() == {
        "texts": 0,
        "of": 1,
        "tokens": None,
        "lost_percent": 0.0,
    }


def test_a_limit_for_a_while(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    model = make_encoder_model()
    for given, inside in ((5, 5), (None, 48), (60, 60)):
        with limited_to(model, given):
            assert input_limit(model) == inside
        assert input_limit(model) == 48
    assert lowered(32, model) == 32
    assert lowered(32, model, template=10) == 42
    assert lowered(40, model, template=10) == lowered(100, model) == 48


@pytest.mark.parametrize(("asked", "limit", "message"), [(32, None, False), (32, 32, False), (33, 32, True)])
def test_a_lower_limit_than_was_asked_for_is_said(asked: int, limit: int | None, message: bool) -> None:
    line = lowered_line(asked, limit, "m")
    assert line == ("--max-length 33: m takes 32 tokens, texts are cut there" if message else None)


# --- texts that were cut -----------------------------------------------------------------------------------------


def words(counts: Sequence[int]) -> list[str]:
    return [" ".join(["dog"] * count) for count in counts]


COUNTS = [*range(1, 14), 300]


def test_the_cut_texts_are_counted_and_each_once(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    model = make_encoder_model()
    cuts = Cuts(kept={})
    with limited_to(model, 10):
        encode_sentences(model, [*words(COUNTS), *words(COUNTS)], cuts=cuts)
    lost = {count: max(0, count - 8) for count in COUNTS}  # the model reads [CLS], eight words and [SEP]
    percent = round(100 * sum(lost.values()) / sum(count + 2 for count in COUNTS), 2)
    assert cuts.record() == {"texts": 6, "of": len(COUNTS), "tokens": 10, "lost_percent": percent}
    assert cuts.kept == {words([count])[0]: (min(count, 8) + 2, lost[count]) for count in COUNTS}
    some = words([2, 9, 9, 300])
    assert cuts.among(some).record() == {
        "texts": 2, "of": 3, "tokens": 10, "lost_percent": round(100 * (1 + 292) / (4 + 11 + 302), 2)
    }  # fmt: skip


def test_the_unread_end_of_a_very_long_text_is_estimated(
    make_encoder_model: Callable[..., SentenceTransformer],
) -> None:
    """Only the beginning is tokenised; the tokens of the rest follow from its characters."""
    model = make_encoder_model()
    cuts, counted = Cuts(), Cuts()
    with limited_to(model, 10):
        encode_sentences(model, words([50_000]), cuts=cuts)
    count_cut(model.tokenizer, words([50_000]), 10, counted)
    assert cuts.read == 10
    assert cuts.lost == counted.lost == pytest.approx(50_000 - 8, rel=0.01)


def test_the_prompt_is_part_of_what_is_read(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    model = make_encoder_model()
    model.prompts, model.default_prompt_name = {"query": "the cat "}, "query"
    cuts = Cuts()
    with limited_to(model, 10):
        encode_sentences(model, words(COUNTS), cuts=cuts)
    assert cuts.texts == 8


def test_a_tokeniser_that_keeps_nothing_of_what_it_cut(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    """A slow one: what is as long as the limit is tokenised again, and nothing else."""
    fast = make_encoder_model().tokenizer
    asked: list[str] = []
    slow = SimpleNamespace(
        num_special_tokens_to_add=fast.num_special_tokens_to_add,
        tokenize=lambda text: asked.append(text) or fast.tokenize(text),
    )
    texts = words(COUNTS)
    lists = dict(fast(texts, truncation=True, max_length=10))
    tensors = dict(fast(texts, truncation=True, max_length=10, padding=True, return_tensors="pt"))
    counted = [count_tokens(slow, texts, encoded, 10) for encoded in (lists, tensors)]
    assert counted[0] == counted[1]
    assert counted[0].lost == {8: 1, 9: 2, 10: 3, 11: 4, 12: 5, 13: 292}
    assert counted[0].read == [min(count + 2, 10) for count in COUNTS]
    assert asked == [*texts[7:], *texts[7:]]
    assert count_tokens(slow, texts, lists, None).lost == {}


def test_pairs_are_counted_whole(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    fast = make_encoder_model().tokenizer
    pairs = [(a, b) for a in words([1, 3, 5, 9]) for b in words([1, 3, 5, 9])]
    lengths = [len(a.split()) + len(b.split()) for a, b in pairs]
    long = {row: length - 7 for row, length in enumerate(lengths) if length > 7}
    percent = round(100 * sum(long.values()) / sum(length + 3 for length in lengths), 2)
    cuts = Cuts()
    encoded = tokenise(fast, pairs, 10, cuts)
    special = fast.num_special_tokens_to_add(True)
    assert special == 3
    assert cuts.record() == {"texts": len(long), "of": 16, "tokens": 10, "lost_percent": percent}
    assert count_cut(fast, pairs, 10).record() == cuts.record()
    slow = SimpleNamespace(num_special_tokens_to_add=fast.num_special_tokens_to_add, tokenize=fast.tokenize)
    assert count_tokens(slow, pairs, encoded, 10).lost == long


def test_more_texts_than_are_tokenised_at_once(make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    texts = [f"{'dog ' * (9 if i % 3 == 0 else 2)}" for i in range(1100)]
    counted = count_cut(make_encoder_model().tokenizer, texts, 10)
    assert (counted.texts, counted.of, counted.tokens, counted.lost) == (367, 1100, 10, 367)


def test_what_is_said_of_cut_texts() -> None:
    def counted(texts: int, of: int, lost: float = 0.02) -> dict[str, Any]:
        return {"texts": texts, "of": of, "tokens": 128, "lost_percent": lost}

    long = "are longer than 128 tokens and were cut"
    assert cut_line(counted(12, 2758, 4.26)) == f"12 of 2,758 texts {long}: 4.3 % of all tokens are lost"
    assert (
        cut_line(counted(1, 1, 60.0))
        == "1 of 1 text is longer than 128 tokens and was cut: 60.0 % of all tokens are lost"
    )
    assert cut_line(counted(0, 5)) is cut_line(None) is None
    rows = [
        {"task": "stsb", "split": "dev", "truncated": counted(1, 9)},
        {"task": "mr", "split": "all"},
        {"task": "sickr", "split": "test", "truncated": counted(0, 9)},
        {"task": "space-attacked", "split": "all", "recipe": "pwws", "truncated": counted(2, 9)},
    ]
    assert cut_lines(rows) == [
        "stsb dev: 1 of 9 texts is longer than 128 tokens and was cut: less than 0.1 % of all tokens are lost",
        f"space-attacked all pwws: 2 of 9 texts {long}: less than 0.1 % of all tokens are lost",
    ]
