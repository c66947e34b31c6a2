"""Adapters on a model: settings from text, what is trained, what is saved, merging, and folders of adapters."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from holdfast.adapters import Lora, add_lora, has_adapters, load_adapter_weights, merge_adapters, save_with_base
from holdfast.encoder import Encoder
from holdfast.encoding import encode_sentences
from holdfast.errors import NotInstalled, UserError
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import load_sentence_transformer

LORA = Lora(r=4, alpha=8)


@pytest.fixture
def base(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    """A SentenceTransformer's folder."""
    model = load_sentence_transformer(str(make_masked_lm(tmp_path / "lm")), pooling="mean", device="cpu")
    model.save(str(tmp_path / "base"))
    return tmp_path / "base"


def adapted(base: Path, seed: int = 1) -> Any:
    """The base model with adapters that change its vectors."""
    model = load_sentence_transformer(str(base), device="cpu")
    torch.manual_seed(seed)
    add_lora(model, LORA, str(base))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(std=0.2)
    return model


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    """A folder that holds adapters of the base model, as sentence-transformers saves them."""
    save_with_base(adapted(base), tmp_path / "adapter")
    return tmp_path / "adapter"


def test_settings_from_text() -> None:
    lora = Lora.parse("r=8, targets=query+value,dropout=0.1,save=adapter")
    assert lora == Lora(8, None, 0.1, ("query", "value"), "adapter")
    assert lora.scale == 16
    assert Lora.parse("r=8,alpha=4").scale == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank=16", r"--lora has no 'rank' \(did you mean 'r'\?\): it takes r, alpha, dropout, targets, save"),
        ("alfa=16", r"did you mean 'alpha'"),
        ("r", r"--lora r: it takes a value"),
        ("r=x", r"--lora r takes a number, not 'x'"),
        ("r=1.5", r"--lora r takes a whole number, not 1\.5"),
        ("r=inf", r"--lora r takes a whole number, not inf"),
        ("r=0", r"--lora r must be from 1 to 4096, got 0"),
        ("alpha=nan", r"--lora alpha must be more than 0"),
        ("dropout=1", r"--lora dropout must be from 0 to less than 1"),
        ("save=merge", r"--lora save does not take 'merge' \(did you mean 'merged'\?\)"),
    ],
)
def test_wrong_settings_are_told_in_a_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Lora.parse(text)


def test_only_adapters_in_the_layers_get_gradients(base: Path, sentences: list[str]) -> None:
    model = load_sentence_transformer(str(base), device="cpu")
    plain = model.encode(sentences)
    add_lora(model, LORA, str(base))
    assert (model.encode(sentences) == plain).all(), "B is zero at first"
    encoder = Encoder(model.train())
    encoder.encode(encoder.tokenise(sentences), views=2).square().sum().backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained == {name for name, _ in model.named_parameters() if ".lora_" in name}
    assert len(trained) == 2 * 6 * 2, "A and B of six linear maps in two layers, none of the pooler"


def test_chosen_targets(base: Path) -> None:
    model = load_sentence_transformer(str(base), device="cpu")
    add_lora(model, Lora(targets=("query", "value")), str(base))
    assert {name.split(".lora_")[0].rpartition(".")[2] for name, _ in model.named_parameters() if ".lora_" in name} == {
        "query",
        "value",
    }
    with pytest.raises(UserError, match=r"targets=querry: .*\(did you mean 'query'\?\); theirs are query, key, value"):
        add_lora(load_sentence_transformer(str(base), device="cpu"), Lora(targets=("querry",)), str(base))


@pytest.mark.parametrize("kind", ["roberta", "distilbert", "mpnet", "electra", "deberta-v2", "modernbert"])
def test_every_backbone_takes_adapters(kind: str, make_encoder_model: Callable[..., Any], sentences: list[str]) -> None:
    model = make_encoder_model(kind, layers=2, pooling="mean")
    before = model.encode(sentences)
    add_lora(model, LORA, "a base")
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(parameter, std=0.2)
    features = Encoder(model).tokenise(sentences)
    with_adapters = Encoder(model).encode(features)
    merge_adapters(model)
    assert not has_adapters(model)
    assert not any(".lora_" in name or "base_layer" in name for name, _ in model.named_parameters())
    torch.testing.assert_close(Encoder(model).encode(features), with_adapters, rtol=0, atol=1e-5)
    assert abs(with_adapters.detach().numpy() - before).max() > 0.05


def test_contexts_of_the_encoder_with_adapters(base: Path, sentences: list[str]) -> None:
    """δ enters once, the attack freezes the adapters too, and a copy has them."""
    model = adapted(base)
    encoder, merged = Encoder(model), adapted(base)
    merge_adapters(merged)
    features = encoder.tokenise(sentences)
    delta = torch.randn(*features["input_ids"].shape, 16)
    vectors = []
    for each in (encoder, Encoder(merged)):
        with each.perturbed(delta=delta), each.attack_mode():
            assert not any(parameter.requires_grad for parameter in each.model.parameters())
            vectors.append(each.encode(features))
    torch.testing.assert_close(*vectors, rtol=0, atol=1e-5)
    assert (vectors[0] - encoder.encode(features)).abs().max() > 0.05
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == {
        name for name, _ in model.named_parameters() if ".lora_" in name
    }


def test_a_saved_adapter_is_small_and_is_read_back(base: Path, adapter: Path, sentences: list[str]) -> None:
    model = adapted(base)
    tensors = load_file(adapter / "adapter_model.safetensors")
    assert not (adapter / "model.safetensors").exists()
    assert all(".lora_" in name for name in tensors)
    other = adapted(base, seed=2)
    assert abs(other.encode(sentences) - model.encode(sentences)).max() > 0.01
    load_adapter_weights(other, adapter)
    assert (other.encode(sentences) == model.encode(sentences)).all()
    smaller = load_sentence_transformer(str(base), device="cpu")
    add_lora(smaller, Lora(r=2), str(base))
    with pytest.raises(UserError, match="holds other adapters than those of this run"):
        load_adapter_weights(smaller, adapter)


def test_a_folder_that_is_an_adapter_is_read_as_its_merged_model(
    base: Path, adapter: Path, sentences: list[str]
) -> None:
    expected = SentenceTransformer(str(adapter), device="cpu").encode(sentences)
    assert abs(expected - SentenceTransformer(str(base), device="cpu").encode(sentences)).max() > 0.05
    model = load_sentence_transformer(str(adapter), device="cpu")
    assert not has_adapters(model)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert abs(encode_sentences(model, sentences) - expected).max() < 1e-5


@pytest.mark.parametrize("entries", [{"modules_to_save": ["pooler"]}, {"trainable_token_indices": [5]}])
def test_an_adapter_that_replaces_weights_is_refused(base: Path, adapter: Path, entries: dict[str, Any]) -> None:
    changed(adapter, **entries)
    with pytest.raises(UserError, match=r"an adapter with other weights of its own .*: merge it into its base model"):
        load_sentence_transformer(str(adapter), device="cpu")


def test_a_merged_model_is_saved_as_a_plain_one(
    base: Path, adapter: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """Not under the names of the adapters' file, which nothing could load."""
    expected = SentenceTransformer(str(adapter), device="cpu").encode(sentences)
    load_sentence_transformer(str(adapter), device="cpu").save_pretrained(str(tmp_path / "saved"))
    assert load_file(tmp_path / "saved" / "model.safetensors").keys() == load_file(base / "model.safetensors").keys()
    found = SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(sentences)
    assert abs(found - expected).max() < 1e-5


def test_the_identity_of_an_adapter_is_also_that_of_its_base(base: Path, adapter: Path) -> None:
    before = model_identity(adapter)["model_sha256"]
    assert before != model_identity(base)["model_sha256"]
    weights = base / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    assert model_identity(adapter)["model_sha256"] != before


def changed(folder: Path, **entries: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def test_a_base_that_is_not_at_hand_is_named(base: Path, adapter: Path) -> None:
    shutil.move(base, base.with_name("elsewhere"))
    with pytest.raises(
        UserError, match=rf"is an adapter of {base}, which cannot be read: no such model folder"
    ) as told:
        resolve_model(str(adapter))
    assert "\n" not in str(told.value)


def test_adapters_that_are_not_read(base: Path, adapter: Path, tmp_path: Path) -> None:
    changed(adapter, base_model_name_or_path=None)
    with pytest.raises(UserError, match="is an adapter that names no base model"):
        resolve_model(str(adapter))
    changed(adapter, base_model_name_or_path=str(base), peft_type="IA3")
    with pytest.raises(
        UserError, match=r"is an adapter of the kind 'IA3' \(adapter_config.json\): holdfast reads LoRA"
    ):
        resolve_model(str(adapter))
    changed(adapter, peft_type="LORA")
    shutil.copytree(adapter, tmp_path / "second")
    changed(tmp_path / "second", base_model_name_or_path=str(adapter))
    with pytest.raises(UserError, match="which is an adapter too: merge that one into its base first"):
        resolve_model(str(tmp_path / "second"))
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match=r"has no weights: there is no adapter_model\.safetensors"):
        resolve_model(str(adapter))


def test_damaged_adapters_are_refused(adapter: Path) -> None:
    weights = adapter / "adapter_model.safetensors"
    tensors = load_file(weights)
    save_file({name: value for name, value in tensors.items() if "layer.1" not in name}, weights)
    with pytest.raises(UserError, match=r"do not match adapter_config\.json: they are 12 tensors, and it asks for 24"):
        load_sentence_transformer(str(adapter), device="cpu")


def test_without_peft(base: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    model = load_sentence_transformer(str(base), device="cpu")
    with pytest.raises(NotInstalled, match=r"--lora needs peft: pip install 'holdfast\[adapters\]'"):
        add_lora(model, LORA, str(base))
    with pytest.raises(NotInstalled, match=r"is an adapter, which needs peft: pip install 'holdfast\[adapters\]'"):
        resolve_model(str(adapter))
