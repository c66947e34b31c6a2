"""Audits of broken models, of models that are none, and of odd texts."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from audited import SEEN, TASKS, by_task, run, some_texts, tasks_of

from holdfast.attacks.targets import characters_seen, unknown_token
from holdfast.audit import random_change_items, vector_items
from holdfast.audit import vector_movement as spaces


def broken(model: Any, weights: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(weights(parameter))
    return model


def test_models_without_usable_vectors_are_told(
    here: Path, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    for fault, words in (((lambda p: p * math.nan), "not finite"), ((lambda p: p * 0.0), "zero or not finite")):
        model = broken(make_encoder_model("bert"), fault)
        item, units = vector_items.vectors_item(model, sentences, None)
        assert item.row["verdict"] == "breaks"
        assert words in item.row["told"]
        assert not vector_items.can_compare(units)
    model.save_pretrained("zero")
    result = run("zero")
    assert tasks_of(result) == TASKS
    assert {row["verdict"] for row in result["results"][1:]} == {"absent"}
    assert "not measured: the vectors are zero" in result["results"][-1]["told"]
    assert result["examples"] == []


class _Pooled(torch.nn.Module):
    """Pools in a way of its own."""

    def __init__(self, pool: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {**features, "sentence_embedding": self.pool(features)}


def pooled(model: Any, pool: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[model[0], _Pooled(pool)], device="cpu").eval()


def test_constant_anisotropic_and_padded_vectors_are_told(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model("bert")
    sound, _ = vector_items.vectors_item(model, sentences, None)
    assert sound.row["metrics"]["batch_difference"] < 1e-5
    constant, units = vector_items.vectors_item(
        pooled(model, lambda f: torch.ones(len(f["input_ids"]), 4)), sentences, None
    )
    assert constant.row["verdict"] == "breaks"
    assert "the same vector" in constant.row["told"]
    assert not vector_items.can_compare(units)
    narrow, units = vector_items.vectors_item(
        pooled(model, lambda f: f["token_embeddings"][:, 0] + 9.0), sentences, None
    )
    assert narrow.row["verdict"] == "bends"
    assert "high cosines mean little" in narrow.row["told"]
    assert vector_items.can_compare(units)
    padded, _ = vector_items.vectors_item(pooled(model, lambda f: f["token_embeddings"].mean(dim=1)), sentences, None)
    assert padded.row["verdict"] == "breaks"
    assert "longer texts are in its batch" in padded.row["told"]


def test_a_model_that_answers_at_random_is_told(make_encoder_model: Callable[..., Any]) -> None:
    def drawn(features: dict[str, torch.Tensor]) -> torch.Tensor:
        rows = [
            torch.randn(16, generator=torch.Generator().manual_seed(hash(tuple(ids))))
            for ids in features["input_ids"].tolist()
        ]
        return torch.stack(rows)

    model, given = pooled(make_encoder_model("bert"), drawn), some_texts(60)
    space = spaces.Space(model, given, list(range(60)), spaces.unit_vectors(model, given))
    settings = SimpleNamespace(seed=1)
    moved = space.move([spaces.Copy(i, f"{text} dog", (), 0.1) for i, text in enumerate(given)])
    item = random_change_items._noise_item(SimpleNamespace(space=space, settings=settings), moved)  # type: ignore[arg-type]
    assert item.row["verdict"] == "breaks"
    assert item.row["told"].endswith("no better than random")


def test_odd_texts(here: Path) -> None:
    odd = [
        "dog",
        "of the",
        "😀😀",
        "!!!",
        "שלום עולם גדול",
        "مرحبا بالعالم الكبير",
        "日本語のテキスト",
        "a\u2028b",
        "  x  ",
    ]
    Path("odd.txt").write_text("\n".join([*odd, "dog runs " * 2500, *some_texts(6)]) + "\n", encoding="utf-8")
    result = run(texts="odd.txt", examples=30, max_words=300)  # the model sees 62 of them
    items = by_task(result)
    assert result["protocol"]["texts"]["cut"] == 1
    assert items["audit-vectors"]["n"] >= 14
    assert items["audit-adversarial-typos"]["skipped"]["it holds no word that may be changed"] >= 3
    Path("none.txt").write_text("of the\n😀\n!!!\n", encoding="utf-8")
    items = by_task(run(texts="none.txt"))
    assert items["audit-typos"]["told"] == "no text has a word that may be changed"
    assert items["audit-adversarial-typos"]["verdict"] == "absent"
    assert "more than 10 texts" in items["audit-neighbours"]["told"]


def test_the_token_for_unknown_words_is_not_padding() -> None:
    """A decoder reads no padding at the end of a text: a word would be deleted, not replaced."""
    gpt2 = SimpleNamespace(unk_token="<|endoftext|>", mask_token=None, pad_token="<|endoftext|>")
    assert unknown_token(gpt2) == "[UNK]"
    gpt2.mask_token = "<mask>"
    assert unknown_token(gpt2) == "<mask>"
    assert unknown_token(SimpleNamespace(unk_token="[UNK]", mask_token="[MASK]", pad_token="[PAD]")) == "[UNK]"
    assert unknown_token(SimpleNamespace(unk_token=None, mask_token="<mask>", pad_token="<pad>")) == "<mask>"


def test_word_vectors_can_be_audited(here: Path) -> None:
    """A model without a transformer: its tokeniser has neither offsets nor an unknown token, and texts may be zero."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", *SEEN])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.normalizer = normalizers.Lowercase()
    weights = np.random.default_rng(0).normal(size=(len(SEEN) + 1, 8)).astype(np.float32)
    weights[0] = 0.0
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    assert unknown_token(model.tokenizer) == "[UNK]"
    assert characters_seen(model.tokenizer, ("a dog runs",), 0) == 10
    model.save_pretrained("words")
    Path("some.txt").write_text("\n".join([*some_texts(45), "unknown things"]) + "\n")
    items = by_task(run("words", texts="some.txt", examples=40))
    _a_function_of_the_same_vectors_is_audited_alike(items)
    assert items["audit-vectors"]["metrics"]["without_vector"] == 1
    assert items["audit-vectors"]["verdict"] == "breaks"
    # Each text is the mean of its words, so that one lost word pulls about its share.
    assert 0.5 < items["audit-typos"]["metrics"]["pull"] < 2.0
    assert items["audit-adversarial-typos"]["n"] == 40


SERVICE = """
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("words", device="cpu")
calls = []

def embed(texts):
    calls.append(len(texts))
    return model.encode(texts).tolist()
"""


def _a_function_of_the_same_vectors_is_audited_alike(items: dict[str, dict[str, Any]]) -> None:
    """Of the model in the folder `words` through a function, in calls of 50 texts: all items, the same numbers."""
    Path("word_service.py").write_text(SERVICE)
    sys.modules.pop("word_service", None)
    result = run("call:word_service:embed", texts="some.txt", examples=40, call_batch=50, precision="bf16")
    assert max(sys.modules["word_service"].calls) == 50
    assert result["model_sha256"] == hashlib.sha256(SERVICE.encode()).hexdigest()
    assert result["protocol"]["precision_of_search"] == "fp32"
    again = by_task(result)
    assert again.keys() == items.keys()
    for task, row in again.items():
        assert row["verdict"] == items[task]["verdict"], task
        assert (row["verdict"] == "absent") <= (task not in TASKS), task
        assert row["metrics"] == pytest.approx(items[task]["metrics"], rel=1e-3, abs=1e-3), task


def test_a_function_whose_vectors_depend_on_their_company_is_told(here: Path) -> None:
    Path("uneven_service.py").write_text(
        "def embed(texts):\n"
        "    return [[float(len(text)), len(set(text)), 4.0 * len(texts)] for text in texts]\n"
    )  # fmt: skip
    sys.modules.pop("uneven_service", None)
    vectors = by_task(run("call:uneven_service:embed", examples=2, items="vectors"))["audit-vectors"]
    assert vectors["verdict"] == "breaks"
    assert "longer texts are in its batch" in vectors["told"]
