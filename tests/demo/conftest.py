"""Small random models that know the words of the demo's texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.demo.demo_sentences import load_pairs, load_sentiment
from holdfast.demo.demo_texts import load_changed_meanings, load_town


def _texts() -> list[str]:
    texts = [text for pair in load_pairs() for text in (pair.sentence1, pair.sentence2)]
    texts += [one.sentence for one in load_sentiment()]
    texts += [text for each in load_changed_meanings() for text in (each.text, each.same, each.other)]
    town = load_town()
    return [*texts, *town.passages, *town.training, *(question.text for question in town.questions)]


@pytest.fixture(scope="session")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random masked LM that knows the words of the demo's texts."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    folder = tmp_path_factory.mktemp("models") / "lm"
    words = sorted(set(re.findall(r"[a-z]+", " ".join(_texts()).lower())))
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*letters, *(f"##{letter}" for letter in letters)]  # of which mistyped words consist
    tokens = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *pieces])
    BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(tokens), max_position_embeddings=64, initializer_range=0.5, **sizes)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder(lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence encoder with mean pooling on the random masked LM."""
    from holdfast.models import load_sentence_transformer

    folder = tmp_path_factory.mktemp("models") / "encoder"
    load_sentence_transformer(str(lm), pooling="mean", device="cpu").save(str(folder))
    return folder
