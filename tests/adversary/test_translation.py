"""Back-translation with a random model: what is said is nonsense, but it is said to the right sentence."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.adversary.translation import Translator, back_translate
from holdfast.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, make_masked_lm: Any) -> Path:
    """A random BART with the tokeniser of 21 words."""
    from transformers import AutoTokenizer, BartConfig, BartForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(make_masked_lm(tmp_path / "words"))
    names = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    torch.manual_seed(0)
    config = BartConfig(vocab_size=26, d_model=16, init_std=0.5, **sizes, **names, forced_eos_token_id=None)
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    return tmp_path / "bart"


def test_translations_come_in_order_and_are_the_same_alone(folder: Path, sentences: list[str]) -> None:
    translator = Translator(str(folder), longest=20, device="cpu")
    together = translator(sentences)
    assert len(set(together)) > 2
    assert together == [translator([sentence])[0] for sentence in sentences]
    prefixed = Translator(str(folder), prefix="the dog ", longest=20, device="cpu")
    assert prefixed(["runs"]) == translator(["the dog runs"])


def test_there_and_back(folder: Path, sentences: list[str]) -> None:
    there = Translator(str(folder), longest=20, device="cpu")
    back = Translator(str(folder), prefix="a cat ", device="cpu")
    expected = [new or old for new, old in zip(back(there(sentences)), sentences, strict=True)]
    assert back_translate(sentences, there, back) == expected != sentences
    assert back_translate(["a dog"], there, lambda _: [""]) == ["a dog"]  # type: ignore[arg-type]


def test_a_model_that_does_not_translate_is_refused(masked_lm: Path) -> None:
    with pytest.raises(UserError, match="cannot be loaded"):
        Translator(str(masked_lm))


def test_a_marian_model_without_sentencepiece_says_what_to_install(tmp_path: Path) -> None:
    from transformers import MarianConfig, MarianMTModel

    if importlib.util.find_spec("sentencepiece") is not None:
        pytest.skip("sentencepiece is installed, which is none of holdfast's dependencies")
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = MarianConfig(vocab_size=8, d_model=16, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1, **sizes)
    MarianMTModel(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    (tmp_path / "vocab.json").write_text('{"<pad>": 0, "</s>": 1, "<unk>": 2}')
    for name in ("source.spm", "target.spm"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"the tokeniser of .* needs SentencePiece: pip install sentencepiece"):
        Translator(str(tmp_path), device="cpu")
