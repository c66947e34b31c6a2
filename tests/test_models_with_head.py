"""Models with a head from folders of adapters: masked language models, classifiers, and what is refused in a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from holdfast.adapters import Lora, add_lora, save_with_base
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.translation import Translator
from holdfast.attacks.classifier import load_classifier
from holdfast.errors import UserError
from holdfast.model_lookup import has_masked_lm_head, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.pretraining.model import continued_model
from holdfast.pretraining.vocabulary import load_tokenizer

pytest.importorskip("peft")

SENTENCES = ["the dog runs in the park", "a cat sleeps on the red bed", "the man"]


@pytest.fixture
def base(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    """A masked language model."""
    return make_masked_lm(tmp_path / "base")


@pytest.fixture(params=["with modules", "transformer alone"])
def adapter(base: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Adapters of the masked LM's body, which change its vectors, as holdfast or as transformers saves them."""
    model = load_sentence_transformer(str(base), pooling="mean", device="cpu")
    torch.manual_seed(1)
    add_lora(model, Lora(r=4, alpha=8), str(base))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(std=0.2)
    folder = tmp_path / "adapter"
    if request.param == "with modules":
        save_with_base(model, folder)
    else:
        transformer: Any = model.transformers_model
        transformer.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        name_base(folder, base)
    return folder


def name_base(folder: Path, base: Path, **entries: Any) -> None:
    path = folder / "adapter_config.json"
    config = {**json.loads(path.read_text()), "base_model_name_or_path": str(base), **entries}
    path.write_text(json.dumps(config))


def hidden(model: Any, tokenizer: Any) -> torch.Tensor:
    """The last hidden states of the sentences, by the body of a model with a head."""
    features = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        states: torch.Tensor = model.eval().base_model(**features).last_hidden_state
    return states


def merged_states(adapter: Path) -> torch.Tensor:
    """The same by the encoder that the adapter is read as."""
    encoder = load_sentence_transformer(str(adapter), pooling=None, device="cpu")
    features = dict(encoder.tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    with torch.no_grad():
        states: torch.Tensor = encoder[0](features)["token_embeddings"]
    return states


@pytest.mark.parametrize("load", ["masked_lm", "continued_model"])
def test_the_body_is_the_merged_one_and_the_head_that_of_the_base(load: str, base: Path, adapter: Path) -> None:
    tokenizer = load_tokenizer(str(adapter), "--model")
    model = MaskedLM(str(adapter)).model if load == "masked_lm" else continued_model(str(adapter), tokenizer, 32)
    found = hidden(model, tokenizer)
    torch.testing.assert_close(found, merged_states(adapter), rtol=0, atol=1e-5)
    plain = AutoModelForMaskedLM.from_pretrained(base)
    assert (found - hidden(plain, tokenizer)).abs().max() > 0.05
    weights = dict(model.named_parameters())
    assert not any("lora" in name or "base_layer" in name for name in weights)
    head = {name: value for name, value in plain.named_parameters() if name.startswith("cls.")}
    assert head
    assert all(torch.equal(value, weights[name]) for name, value in head.items())
    assert all(value.requires_grad == (load == "continued_model") for value in weights.values())
    assert has_masked_lm_head(adapter)


def test_an_adapter_of_the_whole_model_is_merged_as_peft_does(base: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    torch.manual_seed(2)
    settings = LoraConfig(r=2, target_modules=["query", "value", "transform.dense"], init_lora_weights=False)
    adapted: Any = get_peft_model(AutoModelForMaskedLM.from_pretrained(base), settings)
    folder = tmp_path / "whole"
    adapted.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    name_base(folder, base)
    expected = PeftModel.from_pretrained(AutoModelForMaskedLM.from_pretrained(base), folder).merge_and_unload().eval()
    features = AutoTokenizer.from_pretrained(base)(SENTENCES, padding=True, return_tensors="pt")
    found = MaskedLM(str(folder)).model
    with torch.no_grad():
        torch.testing.assert_close(found(**features).logits, expected(**features).logits, rtol=0, atol=1e-5)
        plain = AutoModelForMaskedLM.from_pretrained(base).eval()(**features).logits
    assert (found(**features).logits - plain).abs().max() > 0.05


def test_what_is_read_whole_is_refused_in_a_line(adapter: Path) -> None:
    given = str(adapter)
    told = "is a sentence encoder" if (adapter / "modules.json").exists() else "is an adapter, and a classifier is read"
    with pytest.raises(UserError, match=told):
        load_classifier(given)
    with pytest.raises(UserError, match="is an adapter, and a translation model is read whole: merge it into"):
        Translator(given)


def test_an_adapter_with_weights_of_its_own_is_refused(adapter: Path) -> None:
    weights = adapter / "adapter_model.safetensors"
    save_file({**load_file(weights), "base_model.model.classifier.weight": torch.zeros(2, 16)}, weights)
    with pytest.raises(UserError, match=r"is an adapter with other weights of its own \(base_model\.model\.classifier"):
        MaskedLM(str(adapter))


def test_an_adapter_that_does_not_fit_is_refused(adapter: Path) -> None:
    weights = adapter / "adapter_model.safetensors"
    save_file({name: value for name, value in load_file(weights).items() if "layer.1" not in name}, weights)
    with pytest.raises(UserError, match=r"do not match adapter_config\.json: they are 12 tensors, and it asks for 24"):
        MaskedLM(str(adapter))


def test_an_adapter_of_an_encoder_without_the_head_has_none(base: Path, adapter: Path, tmp_path: Path) -> None:
    load_sentence_transformer(str(base), pooling="mean", device="cpu").save(str(tmp_path / "encoder"))
    name_base(adapter, tmp_path / "encoder")
    with pytest.raises(UserError, match="has no masked-LM head"):
        MaskedLM(str(adapter))
    assert not has_masked_lm_head(resolve_model(str(adapter)))
