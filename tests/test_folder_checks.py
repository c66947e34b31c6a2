"""A model's folder is whole within itself: no file of it leads elsewhere, and none asks for code or other weights."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from holdfast.errors import UserError
from holdfast.folder_checks import check_files
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer


@pytest.fixture
def model(masked_lm: Path) -> Path:
    """A model's folder, beside one whose files it may not reach."""
    shutil.copytree(masked_lm, masked_lm.parent / "outside")
    return masked_lm


@pytest.fixture
def saved(model: Path, tmp_path: Path) -> Path:
    load_sentence_transformer(str(model), pooling="mean", device="cpu").save(str(tmp_path / "saved"))
    return tmp_path / "saved"


def put(path: Path, **entries: Any) -> None:
    """Write entries into a JSON file, which need not be there."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(before | entries), encoding="utf-8")


OUTSIDE = "names a file outside of the model's folder as its"


@pytest.mark.parametrize(
    ("name", "entries", "message"),
    [
        ("tokenizer_config.json", {"vocab_file": "../outside/tokenizer.json"}, OUTSIDE),
        ("tokenizer_config.json", {"vocab": "../outside/tokenizer.json"}, OUTSIDE),
        ("tokenizer_config.json", {"init_inputs": ["../outside/tokenizer.json"]}, OUTSIDE),
        ("tokenizer_config.json", {"mecab_kwargs": {"mecab_dic": "../outside"}}, OUTSIDE),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["../outside/tokenizer.json"]}, OUTSIDE),
        ("special_tokens_map.json", {"tokenizer_file": "../outside/tokenizer.json"}, OUTSIDE),
        ("tokenizer_config.json", {"merges": "merges.txt"}, OUTSIDE),
        ("tokenizer.json", {"model": {"type": "WordPiece", "vocab": "../outside/vocab.txt"}}, OUTSIDE),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {}, "merges": "nowhere.txt"}}, OUTSIDE),
        ("special_tokens_map.json", {"is_local": False}, "has 'is_local', which is no special token"),
        ("processor_config.json", {"tokenizer_path": "../outside"}, OUTSIDE),
        ("config.json", {"text_config": {"weights": "../outside"}}, OUTSIDE),
        ("config.json", {"transformers_weights": "other.safetensors"}, "has transformers_weights, which names another"),
        ("tokenizer_config.json", {"gguf_file": "model.gguf"}, "has gguf_file, which names another"),
        ("config.json", {"quantization_config": {"quant_method": "gptq"}}, "quantised weights: give the model in full"),
        (
            "tokenizer_config.json",
            {"auto_map": {"AutoTokenizer": ["a.B", None]}},
            r"own code to run \(auto_map in token",
        ),
        ("config.json", {"text_config": {"auto_map": {"AutoModel": "a.B"}}}, r"own code to run \(auto_map in config"),
        ("config.json", {"_attn_implementation": "someone/kernels"}, "asks for the attention 'someone/kernels'"),
        ("config.json", {"hidden_dropout_prob": float("nan")}, "has NaN as its hidden_dropout_prob"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"10000001": {"content": "x"}}},
            "with the number '10000001'",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5": {"\x1b[2J": 1}}}, "has a token with the property"),
        ("special_tokens_map.json", {"cls_token": {"content": "[CLS]", "\x1b[2J": 1}}, "has a token with the property"),
        ("tokenizer.json", {"added_tokens": [{"content": "x", "\x1b[2J": 1}]}, "has a token with the property"),
    ],
)
def test_entries_that_lead_elsewhere(model: Path, name: str, entries: dict[str, Any], message: str) -> None:
    put(model / name, **entries)
    with pytest.raises(UserError, match=rf"{message}"):
        resolve_model(str(model))


def test_an_absolute_path_and_one_from_the_working_directory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (str(model.parent / "outside" / "tokenizer.json"), "outside/tokenizer.json"):
        monkeypatch.chdir(model.parent)
        put(model / "tokenizer_config.json", vocab_file=value)
        with pytest.raises(UserError, match=rf"{OUTSIDE} vocab_file: {value}"):
            resolve_model(str(model))


def test_what_only_looks_like_a_path_is_no_reason_to_refuse(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    put(
        model / "tokenizer_config.json",
        name_or_path=str(model.parent / "outside"),
        special_tokens_map_file=str(model.parent / "outside" / "tokenizer.json"),
        tokenizer_file="/home/anyone/.cache/huggingface/tokenizer.json",
        extra_special_tokens=["/", "..", "../outside"],
        model_input_names=["outside", "input_ids", "attention_mask"],
    )
    put(model / "config.json", _name_or_path="../outside", finetuning_task="outside", id2label={"0": "../outside"})
    assert resolve_model(str(model)) == model


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"tokenizer_name_or_path": "../outside"}, "has tokenizer_name_or_path, which names a tokeniser elsewhere"),
        (
            {"tokenizer_name_or_path": "bert-base-uncased"},
            "has tokenizer_name_or_path, which names a tokeniser elsewhere",
        ),
        ({"model_args": {"weights_only": False}}, "gives the loaders 'weights_only' in model_args"),
        ({"model_kwargs": {"gguf_file": "a.gguf"}}, "gives the loaders 'gguf_file' in model_kwargs|has gguf_file"),
        ({"model_args": {"variant": "fp16"}}, "gives the loaders 'variant' in model_args"),
        ({"config_args": {"num_hidden_layers": 10**7}}, "gives the loaders 'num_hidden_layers' in config_args"),
        ({"tokenizer_args": {"vocab_file": "x"}}, "gives the loaders 'vocab_file' in tokenizer_args"),
        ({"processor_kwargs": ["x"]}, r"gives the loaders \['x'\] in processor_kwargs"),
        ({"transformer_task": "sequence-classification"}, "has no sentence vectors: sentence_bert_config.json says"),
        (
            {"modality_config": {"text": {"method": "save_pretrained", "method_output_name": None}}},
            "asks for the method 'save_pretrained'",
        ),
    ],
)
def test_settings_of_a_sentence_transformer(saved: Path, entries: dict[str, Any], message: str) -> None:
    put(saved / "sentence_bert_config.json", **entries)
    with pytest.raises(UserError, match=message):
        resolve_model(str(saved))


def test_settings_that_only_say_how_texts_are_read(saved: Path) -> None:
    put(saved / "sentence_bert_config.json", tokenizer_args={"padding_side": "right"}, model_args={"dtype": "float32"})
    assert load_sentence_transformer(str(saved), device="cpu").encode("the dog").shape == (16,)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "README.md", "notes.txt"])
def test_a_link_that_leaves_the_folder_is_refused(model: Path, name: str) -> None:
    (model / name).unlink(missing_ok=True)
    (model.parent / "outside" / name).touch()
    (model / name).symlink_to(model.parent / "outside" / name)
    with pytest.raises(UserError, match=rf"refused, {name} is a link to outside of the model's folder"):
        resolve_model(str(model))


def test_a_module_or_templates_behind_a_link_are_refused(saved: Path, model: Path) -> None:
    (saved / "1_Pooling").rename(saved.parent / "elsewhere")
    (saved / "1_Pooling").symlink_to(saved.parent / "elsewhere")
    with pytest.raises(UserError, match="refused, 1_Pooling is a link to outside of the model's folder"):
        resolve_model(str(saved))
    (model / "additional_chat_templates").symlink_to(model.parent / "outside")
    with pytest.raises(UserError, match="refused, additional_chat_templates is a link to outside"):
        resolve_model(str(model))


def test_links_within_the_folder_and_a_link_to_the_folder_itself(model: Path) -> None:
    (model / "tokenizer.json").rename(model / "real.json")
    (model / "tokenizer.json").symlink_to("real.json")
    (model / "latest").symlink_to(model.parent / "outside")  # a folder that no loader looks into
    (model.parent / "alias").symlink_to(model)
    assert resolve_model(str(model.parent / "alias")) == model.parent / "alias"


def test_a_snapshot_of_the_hubs_cache_links_into_its_own_blobs(model: Path, tmp_path: Path) -> None:
    cached = tmp_path / "models--someone--model"
    snapshot, blobs = cached / "snapshots" / ("0" * 40), cached / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(model.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    assert load_sentence_transformer(str(snapshot), device="cpu").encode("the dog").shape == (16,)
    other = tmp_path / "models--someone--other" / "blobs"
    other.mkdir(parents=True)
    shutil.copy(model / "tokenizer.json", other / "secret")
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "tokenizer.json").symlink_to(other / "secret")
    with pytest.raises(UserError, match=r"refused, tokenizer\.json is a link to outside of the model's folder"):
        resolve_model(str(snapshot))


def test_what_is_no_plain_file_would_be_waited_for(model: Path) -> None:
    os.mkfifo(model / "README.md")
    with pytest.raises(UserError, match=r"refused, README\.md is not a plain file"):
        resolve_model(str(model))


@pytest.mark.parametrize("base", ["/home/someone/model", "../outside"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_adapter_whose_base_is_not_there_is_refused(model: Path, base: str, whole: bool) -> None:
    put(model / "adapter_config.json", base_model_name_or_path=base, peft_type="LORA")
    (model / "model.safetensors").rename(model / "adapter_model.safetensors")
    if not whole:
        (model / "config.json").unlink()
    with pytest.raises(
        UserError, match=rf"is an adapter of {base}, which cannot be read: no such model folder: {base}"
    ):
        resolve_model(str(model))


def test_the_base_of_an_adapter_is_checked_like_any_model(model: Path, tmp_path: Path) -> None:
    base = Path(shutil.copytree(model, tmp_path / "base"))
    put(base / "config.json", auto_map={"AutoModel": "code.Model"})
    put(model / "adapter_config.json", base_model_name_or_path=str(base), peft_type="LORA")
    (model / "model.safetensors").rename(model / "adapter_model.safetensors")
    with pytest.raises(UserError, match=r"which cannot be read: .* refused, the model needs its own code to run"):
        resolve_model(str(model))
    put(model / "adapter_config.json", base_model_name_or_path=str(base), peft_type="LORA", auto_map={"x": "y.Z"})
    with pytest.raises(UserError, match=r"refused, the model needs its own code to run \(auto_map in adapter_config"):
        resolve_model(str(model))


def test_a_distributed_checkpoint_is_not_loaded_in_place_of_the_weights(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    save_file(weights, model / "shard-00000-model-00000-of-00001.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="holds a distributed checkpoint"):
        resolve_model(str(model))


def test_a_folder_that_holds_a_tokeniser_alone_is_checked_too(model: Path) -> None:
    from holdfast.pretraining.vocabulary import load_tokenizer

    (model / "config.json").unlink()
    put(model / "special_tokens_map.json", tokenizer_file="../outside/tokenizer.json")
    with pytest.raises(UserError, match=OUTSIDE):
        load_tokenizer(str(model), "--tokenizer")
    (model / "special_tokens_map.json").unlink()
    check_files(model, model, "the tokeniser")
