"""A fine-tuned classifier of an encoder with a prompt: its tokeniser puts the prompt before the texts, untouched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.resource_names import LIGHT
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.defences.defence import Passes, TaskBatch
from holdfast.classifiers.prompted_tokenizer import with_prompt_before
from holdfast.errors import UserError

Settings = Callable[..., FinetuneSettings]


def test_the_template_of_wordpiece(tiny: Path, tmp_path: Path) -> None:
    plain = AutoTokenizer.from_pretrained(tiny)
    with_prompt_before(plain, "the old ", "m").save_pretrained(tmp_path)
    prompted = AutoTokenizer.from_pretrained(tmp_path)
    for single in ("dog runs", "a"):
        assert prompted(single)["input_ids"] == plain(f"the old {single}")["input_ids"]
    pair = prompted("dog runs", "a cat", return_offsets_mapping=True)
    assert pair["input_ids"] == plain("the old dog runs", "a cat")["input_ids"]
    assert pair["token_type_ids"] == plain("the old dog runs", "a cat")["token_type_ids"]
    assert pair.sequence_ids() == [None, None, None, 0, 0, None, 1, 1, None]
    assert pair["offset_mapping"][:5] == [(0, 0), (0, 0), (0, 0), (0, 3), (4, 8)]
    cut = prompted("dog " * 100, truncation=True, max_length=8)["input_ids"]
    assert cut == plain("the old dog dog dog dog")["input_ids"]


def test_the_template_of_byte_level_tokens(tmp_path: Path) -> None:
    words = ["<s>", "</s>", "<pad>", "<unk>", *"abcdeĠ:", "ab", "Ġa", "Ġb"]
    backend = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [("a", "b"), ("Ġ", "a"), ("Ġ", "b")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    plain = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    prompted = with_prompt_before(plain, "ab: ", "m")
    encoded = prompted("a b", return_offsets_mapping=True)
    assert encoded["input_ids"] == plain("ab: a b")["input_ids"]
    assert [
        span for span, text in zip(encoded["offset_mapping"], encoded.sequence_ids(), strict=True) if text == 0
    ] == [
        (0, 1),
        (2, 3),
    ]
    assert prompted("a", "b")["input_ids"][:4] == plain("ab: a")["input_ids"][:-1]


def test_the_template_of_tokens_with_their_blank_replaced() -> None:
    """Gemma's tokeniser replaces blanks and puts none before a text, so that the prompt's last one is in "▁ab"."""
    words = ["<s>", "</s>", "<pad>", "<unk>", *"ab:▁", "▁a", "▁ab"]
    backend = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [("▁", "a"), ("▁a", "b")]))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
    )
    plain = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", pad_token="<pad>", unk_token="<unk>")
    assert plain("b: ab")["input_ids"] == [0, 5, 6, 9]
    assert with_prompt_before(plain, "b: ", "m")("ab")["input_ids"] == [0, 5, 6, 9]
    assert with_prompt_before(plain, "b:", "m")("ab")["input_ids"] == plain("b:ab")["input_ids"] == [0, 5, 6, 4, 5]


@pytest.mark.parametrize("prompt", ["", "  "])
def test_a_prompt_without_tokens_is_refused(prompt: str, tiny: Path) -> None:
    with pytest.raises(UserError, match="reads nothing in the prompt"):
        with_prompt_before(AutoTokenizer.from_pretrained(tiny), prompt, "m")


def test_a_classifier_is_trained_and_attacked_with_the_prompt(
    settings: Settings, prompted: Callable[..., Path], tmp_path: Path, data: Path
) -> None:
    given: dict[str, Any] = {"model": str(prompted()), "max_steps": 20, "epochs": None, "max_length": 20}
    with pytest.raises(UserError, match="has prompts and no default: query 'the old '"):
        finetune(settings(**given))
    result = finetune(settings(prompt_name="query", defence="pgd", **given))
    assert result["protocol"]["prompt"] == "the old "
    assert result["protocol"]["max_seq_length"] == 22
    folder = tmp_path / "out"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.decode(tokenizer("a dog")["input_ids"]) == "[CLS] the old a dog [SEP]"
    assert json.loads((folder / "config.json").read_text())["holdfast"]["prompt"] == "the old "
    rows = [line.split("\t") for line in (data / "sst2" / "test.tsv").read_text().splitlines()[1:]]
    plain = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        logits = plain(**tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")).logits
    right = (logits.argmax(dim=1) == torch.tensor([int(label) for _, label in rows])).double()
    assert result["results"][-1]["metrics"]["accuracy"] == pytest.approx(100 * float(right.mean()))

    shown = attack(
        AttackSettings(
            str(folder), recipes=["typos"], task="sst2", examples=6, data=data, resources=LIGHT,
        )
    )  # fmt: skip
    assert {row["outcome"] for row in shown["examples"]} & {"succeeded", "failed"}
    assert {row["original"] for row in shown["examples"]} <= {text for text, _ in rows}
    with pytest.raises(UserError, match=r"--prompt is for an encoder, and .* is a sequence classifier"):
        load_classifier(str(folder), prompts=settings(prompt="a "))

    again = finetune(settings(**{**given, "model": str(folder)}, output=tmp_path / "again"))  # it keeps its prompt
    assert again["protocol"]["prompt"] == "the old "
    assert AutoTokenizer.from_pretrained(tmp_path / "again")("a dog")["input_ids"] == tokenizer("a dog")["input_ids"]


def test_delta_is_zero_on_the_prompt(settings: Settings, prompted: Callable[..., Path], tmp_path: Path) -> None:
    finetune(settings(model=str(prompted()), prompt="big red ", max_steps=1, epochs=None))
    classifier = load_classifier(str(tmp_path / "out"), device="cpu")
    features = classifier.tokenizer(["a dog runs", "the cat"], padding=True, return_tensors="pt")
    passes = Passes(classifier.model, TaskBatch(features, torch.tensor([0, 1]), [0, 1]))
    expected = features["attention_mask"].clone()
    expected[:, :3] = 0
    assert passes.mask.tolist() == expected.tolist()
    delta = torch.zeros(*passes.mask.shape, 16)
    delta[:, :3] = 5.0
    np.testing.assert_array_equal(passes.logits(delta), passes.logits())
    delta[:, 3] = 5.0
    assert (passes.logits(delta) - passes.logits()).abs().max() > 1e-3
    shutil.rmtree(tmp_path / "out")
